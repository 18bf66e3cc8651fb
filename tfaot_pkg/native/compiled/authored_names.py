"""Names of C++'s standard library that an operation may use (docs/decisions/053): those that compute.

They are in C++17's headers that an operation may include. Not among them is what allocates, throws, reads or writes
files, keeps state, depends on the locale, or is a class of the global namespace (`div_t`), through whose arguments C++
would find functions of the C library.
"""

from __future__ import annotations

from itertools import product


def _words(text: str, *suffixes: str) -> frozenset[str]:
    return frozenset(f"{word}{suffix}" for word, suffix in product(text.split(), ("", *suffixes)))


_MATHEMATICS = _words(
    "abs acos acosh asin asinh assoc_laguerre assoc_legendre atan atan2 atanh beta cbrt ceil comp_ellint_1"
    " comp_ellint_2 comp_ellint_3 copysign cos cosh cyl_bessel_i cyl_bessel_j cyl_bessel_k cyl_neumann ellint_1"
    " ellint_2 ellint_3 erf erfc exp exp10 exp2 expint expm1 fabs fdim floor fma fmax fmin fmod frexp hermite hypot"
    " ilogb laguerre ldexp legendre lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint"
    " nextafter nexttoward pow remainder remquo riemann_zeta rint round roundeven scalbln scalbn sin sincos sinh"
    " sph_bessel sph_legendre sph_neumann sqrt tan tanh tgamma trunc",
    "f",
    "l",
) | _words(
    "double_t float_t fpclassify isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan"
    " isnormal isunordered signbit labs llabs imaxabs complex arg conj imag norm polar proj real"
)
_ALGORITHMS = _words(
    "adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count count_if equal"
    " equal_range fill fill_n find find_end find_first_of find_if find_if_not for_each for_each_n generate generate_n"
    " includes is_heap is_heap_until is_partitioned is_permutation is_sorted is_sorted_until iter_swap"
    " lexicographical_compare lower_bound make_heap max max_element merge min min_element minmax minmax_element"
    " mismatch move move_backward next_permutation none_of nth_element partial_sort partial_sort_copy partition"
    " partition_copy partition_point pop_heap prev_permutation push_heap remove_copy remove_copy_if remove_if replace"
    " replace_copy replace_copy_if replace_if reverse reverse_copy rotate rotate_copy search search_n set_difference"
    " set_intersection set_symmetric_difference set_union sort sort_heap stable_partition stable_sort swap_ranges"
    " transform unique unique_copy upper_bound accumulate adjacent_difference exclusive_scan gcd inclusive_scan"
    " inner_product iota lcm partial_sum reduce transform_exclusive_scan transform_inclusive_scan transform_reduce"
    " bsearch"
)
_MEMORY_AND_TEXT = _words(
    "memchr memcmp memcpy memmove memset strchr strcmp strcspn strlen strncmp strpbrk strrchr strspn strstr"
)
_TYPES = (
    _words("byte initializer_list intmax_t intptr_t nullptr_t ptrdiff_t size_t uintmax_t uintptr_t")
    | frozenset(
        f"{sign}{kind}{bits}_t"
        for sign, kind, bits in product(("int", "uint"), ("", "_fast", "_least"), (8, 16, 32, 64))
    )
    | _words(
        "array bitset pair tuple numeric_limits float_denorm_style float_round_style tuple_element tuple_element_t"
        " tuple_size tuple_size_v index_sequence index_sequence_for integer_sequence make_index_sequence"
        " make_integer_sequence in_place in_place_t piecewise_construct piecewise_construct_t ignore"
    )
)
_FUNCTIONS = _words(
    "apply as_const cref declval exchange forward forward_as_tuple get invoke make_from_tuple make_pair make_tuple"
    " move_if_noexcept ref swap tie tuple_cat bind bit_and bit_not bit_or bit_xor boyer_moore_horspool_searcher"
    " boyer_moore_searcher default_searcher divides equal_to function greater greater_equal hash less less_equal"
    " logical_and logical_not logical_or mem_fn minus modulus multiplies negate not_equal_to not_fn plus"
    " reference_wrapper placeholders literals complex_literals _1 _2 _3 _4 _5 _6 _7 _8 _9"
)
_ITERATORS = _words(
    "advance back_insert_iterator back_inserter begin bidirectional_iterator_tag cbegin cend crbegin crend data"
    " distance empty end forward_iterator_tag front_insert_iterator front_inserter input_iterator_tag insert_iterator"
    " inserter iterator iterator_traits make_move_iterator make_reverse_iterator move_iterator next"
    " output_iterator_tag prev random_access_iterator_tag rbegin rend reverse_iterator size"
)
_RATIOS = _words(
    "atto centi deca deci exa femto giga hecto kilo mega micro milli nano peta pico tera ratio ratio_add ratio_divide"
    " ratio_multiply ratio_subtract"
) | _words(
    "ratio_equal ratio_greater ratio_greater_equal ratio_less ratio_less_equal ratio_not_equal",
    "_v",
)
_TRAITS = (
    _words(
        "add_const add_cv add_lvalue_reference add_pointer add_rvalue_reference add_volatile aligned_storage"
        " aligned_union common_type conditional decay enable_if invoke_result make_signed make_unsigned"
        " remove_all_extents remove_const remove_cv remove_extent remove_pointer remove_reference remove_volatile"
        " underlying_type",
        "_t",
    )
    | _words(
        "alignment_of conjunction disjunction extent has_unique_object_representations has_virtual_destructor"
        " is_abstract is_aggregate is_arithmetic is_array is_assignable is_base_of is_bind_expression is_class"
        " is_compound is_const is_constructible is_convertible is_copy_assignable is_copy_constructible"
        " is_default_constructible is_destructible is_empty is_enum is_final is_floating_point is_function"
        " is_fundamental is_integral is_invocable is_invocable_r is_literal_type is_lvalue_reference"
        " is_member_function_pointer is_member_object_pointer is_member_pointer is_move_assignable"
        " is_move_constructible is_nothrow_assignable is_nothrow_constructible is_nothrow_copy_assignable"
        " is_nothrow_copy_constructible is_nothrow_default_constructible is_nothrow_destructible is_nothrow_invocable"
        " is_nothrow_invocable_r is_nothrow_move_assignable is_nothrow_move_constructible is_nothrow_swappable"
        " is_nothrow_swappable_with is_null_pointer is_object is_placeholder is_pod is_pointer is_polymorphic"
        " is_reference is_rvalue_reference is_same is_scalar is_signed is_standard_layout is_swappable"
        " is_swappable_with is_trivial is_trivially_assignable is_trivially_constructible is_trivially_copy_assignable"
        " is_trivially_copy_constructible is_trivially_copyable is_trivially_default_constructible"
        " is_trivially_destructible is_trivially_move_assignable is_trivially_move_constructible is_union is_unsigned"
        " is_void is_volatile negation rank",
        "_v",
    )
    | _words("bool_constant false_type integral_constant true_type void_t")
)

STANDARD = _MATHEMATICS | _ALGORITHMS | _MEMORY_AND_TEXT | _TYPES | _FUNCTIONS | _ITERATORS | _RATIOS | _TRAITS
"""Names in `std`, and those of them that C's headers declare outside of it."""

OWN = frozenset("std tfaot operation v1 Array Input Output Attribute Attributes".split())
"""Names of tfaot/operation.h, and of the namespaces."""

KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const"
    " const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit extern false"
    " float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq"
    " private protected public register reinterpret_cast return short signed sizeof static static_assert static_cast"
    " struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual"
    " void volatile wchar_t while xor xor_eq".split()
)
"""C++17's."""

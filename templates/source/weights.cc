// The weights: one read-only copy for all targets. TFAOT_WEIGHTS_FILE is the path of weights.bin.

#define TFAOT_TEXT_OF(name) #name
#define TFAOT_TEXT(name) TFAOT_TEXT_OF(name)  // two steps, so that the macro `name` is expanded
#define TFAOT_WEIGHTS TFAOT_TEXT(tfaot_weights)

__asm__(
    ".pushsection .rodata.tfaot_weights, \"a\"\n"
    ".balign 64\n"
    ".globl " TFAOT_WEIGHTS "\n"
    ".hidden " TFAOT_WEIGHTS "\n"
    ".type " TFAOT_WEIGHTS ", %object\n"
    TFAOT_WEIGHTS ":\n"
    ".incbin \"" TFAOT_WEIGHTS_FILE "\"\n"
    ".byte 0\n"
    ".size " TFAOT_WEIGHTS ", . - " TFAOT_WEIGHTS "\n"
    ".popsection\n");

"""A registry as a static web site: lists, search, a page per package.

Its business is to show what a `RegistryReader` gives; nothing is decided here, and nothing reads a catalogue but people
and the catalogue's own next update. `render` writes the whole site, `update` what one publication changes.

    index.html                        search, filters, the newest packages
    packages/NAME/index.html          a package
    list/P.html, list/P.json          the packages whose model's name begins with P (tree.py), all in list/l.html
    words/P.json                      the same for words of names, descriptions, licences: what search reads
    home.json                         the newest packages and what can be filtered by
    assets/site.DIGEST.{css,js}
"""

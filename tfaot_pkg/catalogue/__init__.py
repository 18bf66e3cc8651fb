"""A registry as a static web site: lists, search, a page per package.

It shows what a `RegistryReader` reads. Only people and its own next update read a catalogue: nothing else depends
on it.
`render` writes the whole site, `update` the files that one publication changes.

    index.html                        search, filters, the newest packages
    packages/NAME/index.html          a package, with the version that it offers
    packages/NAME/VERSION/index.html  the newest build of a version, with what changed since the one before it
    list/P.html, list/P.json          the packages whose model's name begins with P (tree.py); list/l.html lists all
    words/P.json                      the same for words of names, descriptions and licences, for search
    home.json                         the newest packages, and the values of the filters
    assets/site.DIGEST.{css,js}
"""

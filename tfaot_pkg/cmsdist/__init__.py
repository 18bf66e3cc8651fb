"""CMS's distribution: its `tfaot-model-*.spec` files to and from specs, and the file layout of `cms_tfaot_compile`."""

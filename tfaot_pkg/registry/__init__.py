"""The registry: a static tree of an index and blobs, and what is done with it: publish, search, resolve, install.

Importing this costs neither TensorFlow nor pydantic: searching and installing stay quick.
"""

"""What a command waits for, measured: it runs under slow-downs of one resource at a time.

The trials are those of an ordinary run (`ullage.engine.engine`), with environments that are native
but for what is slow in them; `ullage.analysis.profiles` makes weights of them.
"""

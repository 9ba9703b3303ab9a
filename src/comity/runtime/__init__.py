"""One module for each capability of a node. What a part is stands in `part.py`; `node.py` lists them."""

"""A run over HTTP, in the Open Inference Protocol v2 that KServe, Triton and MLServer speak; the ray is one more input.

service     what is served: a model, its inputs and outputs (signature, tensors), its front
predictor   rows with different rays in one pass
batching    requests that wait together are answered together
documents   the bytes of a request: JSON with a bounded number of values, and binary tensors
requests    from a document to tensors; replies: from tensors to bytes
large       large requests and responses, beside the event loop
app         the routes; gate: keys, logs and metrics around them; describe, openapi, page: the documentation
process     one server, or several workers
"""

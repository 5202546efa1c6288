"""A run over HTTP, in the Open Inference Protocol v2 that KServe, Triton and MLServer speak; the ray is one more input.

service     what is served: a model, its inputs and outputs (signature, tensors), its front (choosing)
cache       weights generated for rays, bounded by bytes
predictor   rows with different rays in one pass
batching    requests that wait together are answered together
requests    from bytes to tensors, JSON and binary; replies: back; bodies: bounded, packed
app         the routes; gate: keys, logs and metrics around them; describe, openapi, page: what it is
process     one server, or several workers
"""

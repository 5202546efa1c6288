"""A run over HTTP, in the Open Inference Protocol v2 that KServe, Triton and MLServer speak; the ray is one more input.

service     what is served: names, shapes, and outputs for rays and rows
cache       weights generated for rays, bounded by bytes
predictor   rows with different rays in one pass
batching    requests that wait together are answered together
codec       bytes to tensors and back, JSON and binary
app         the routes; gate: keys, logs and metrics around them
process     one server, or several workers
"""

"""The server: a run over HTTP, by the Open Inference Protocol v2 of KServe, Triton and MLServer, with the ray as input.

service     a model, its inputs and outputs (signature, tensors), and its front
predictor   predictions for rows with different rays in one pass
batching    batches of the requests that wait
documents   the bytes of a request: JSON with a bounded number of values, and binary tensors
requests    from a document to tensors; replies: from tensors to bytes
large       large requests and responses, beside the event loop
state       limits, metrics and threads of the server; models: its models by name and version
inference   predictions, past the web framework; failures: errors as responses
routes      all other routes; describe, openapi, page: the documentation
app         the application; gate: keys, logs and metrics in front of all routes
process     one server, or several workers
"""

"""Code that the explorer and the server share. It needs FastAPI, uvicorn and httptools only.

protocol    HTTP with bounded headers, for clients that are fast enough
connections the number of connections, and the time that they may wait
rarely      lines of the log that are written at most once a second
hosts       the hosts that requests may name
listening   sockets and ports, and the uvicorn server on them
bodies      request bodies with bounded size, time and memory
rays        rays as clients write them
choice      the operating point that a client asks for
cache       generated weights, kept while there is room
pages       the content security policy and the headers of an HTML page
refusal     the error that becomes an HTTP status
"""

"""What a server is made of: the cache, the batches, the gate, the logs and the metrics."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families

import hyperfront as hf
from hyperfront.apps.serve import describe, failures, logs, requests
from hyperfront.apps.serve.batching import ON_THE_SPOT, Batcher
from hyperfront.apps.serve.options import Limits, ServiceOptions
from hyperfront.apps.serve.predictor import Query
from hyperfront.apps.serve.service import Service, serve_model
from hyperfront.apps.serve.tensors import TensorMetadata
from hyperfront.apps.shared.cache import WeightCache
from hyperfront.apps.shared.hosts import hosts_for
from hyperfront.apps.shared.refusal import Refusal
from tests.helpers.modules import ConvNet
from tests.helpers.serving import Client, serving
from tests.helpers.waiting import LIMIT, until

HALF = np.array([[0.5, 0.5]], np.float32)


def small(**options) -> hf.ParetoModel:
    torch.manual_seed(0)
    return hf.wrap(
        torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)), ["a", "b"], **options
    )


def rays(count: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet([1, 1], count).astype(np.float32)


# ---- cache -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"hypernet": "low_rank"}, {"hypernet": "film"}], ids=["mlp", "low_rank", "film"]
)
def test_the_cache_runs_what_the_plain_module_is(options):
    model, x = small(**options), torch.randn(3, 4)
    cache = WeightCache(model)
    for weights, ray in zip(cache.get(rays(5)), rays(5)):
        torch.testing.assert_close(cache.run(weights, x), model.at(ray)(x))


def test_the_cache_knows_the_statistics_of_each_ray():
    model = hf.wrap(ConvNet(), ["a", "b"], hidden=8)
    x = torch.randn(6, 1, 9, 9)
    model.calibrate([x])
    cache = WeightCache(model)
    for weights, ray in zip(cache.get(rays(4)), rays(4)):
        torch.testing.assert_close(cache.run(weights, x), model.at(ray)(x))


@pytest.mark.parametrize("options", [{}, {"hypernet": "low_rank"}], ids=["mlp", "low_rank"])
def test_the_cache_never_holds_more_bytes_than_it_may(options):
    """And counts them as they are: the storage that the kept rays, and nobody else, hold."""
    model = small(**options)
    one = WeightCache(model).get(HALF)[0].nbytes
    cache = WeightCache(model, max_bytes=10 * one + 1)
    shared = {t.untyped_storage().data_ptr() for t in model.state_dict().values()}
    for start in range(0, 60, 6):
        cache.get(rays(60)[start : start + 6])
        held = {
            t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
            for weights in cache._kept.values()
            for t in weights.tensors.values()
            if t.untyped_storage().data_ptr() not in shared
        }
        assert sum(held.values()) == cache.nbytes <= cache.max_bytes
    assert (len(cache), cache.misses, cache.evictions) == (10, 60, 50)


def test_what_was_used_last_stays_longest():
    model = small()
    cache = WeightCache(model, max_bytes=3 * WeightCache(model).get(HALF)[0].nbytes)
    first, second, third, fourth = (rays(4)[index : index + 1] for index in range(4))
    for ray in (first, second, third, first, fourth):
        cache.get(ray)
    assert (cache.hits, cache.misses) == (1, 4)
    cache.get(np.concatenate([first, third, fourth]))
    assert cache.hits == 4
    cache.get(second)
    assert cache.misses == 5


def test_a_cache_without_room_still_answers():
    model = small()
    cache = WeightCache(model, max_bytes=0)
    assert len(cache.get(rays(3))) == 3
    assert (len(cache), cache.nbytes) == (0, 0)


def test_several_threads_share_a_cache():
    model, x = small(), torch.randn(2, 4)
    cache = WeightCache(model, max_bytes=4 * WeightCache(model).get(HALF)[0].nbytes)
    some = rays(12)
    expected = [model.at(ray)(x).detach() for ray in some]
    wrong: list = []

    def work(seed: int) -> None:
        for index in np.random.default_rng(seed).integers(12, size=100):
            found = cache.run(cache.get(some[index : index + 1])[0], x)
            if not torch.allclose(found, expected[index], atol=1e-6):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.nbytes == sum(weights.nbytes for weights in cache._kept.values()) <= cache.max_bytes


@pytest.mark.parametrize("ray", [[-1, 2], [0, 0], [float("nan"), 1], [1, 2, 3]])
def test_the_cache_refuses_what_is_no_ray(ray):
    cache = WeightCache(small())
    with pytest.raises(hf.HyperfrontError):
        cache.get([ray])
    assert len(cache) == 0


# ---- batches ---------------------------------------------------------------------------------------------------------


def queries(count: int, rows: int = 1) -> list[Query]:
    return [Query(HALF, (torch.full((rows, 1), float(index)),), rows) for index in range(count)]


@pytest.mark.parametrize("slow", [False, True])
def test_requests_that_wait_together_are_answered_together(slow):
    """On the spot or in a thread: every query once, none waits for company, no batch above the limit."""
    batches: list[list[float]] = []

    def predict(some):
        batches.append([query.inputs[0][0].item() for query in some])
        time.sleep(0.005)
        return [(2 * query.inputs[0],) for query in some]

    async def ask() -> list:
        batcher = Batcher(predict, seconds=lambda _: 2 * ON_THE_SPOT * slow, max_rows=8)
        answers = await asyncio.gather(*(batcher.submit(query) for query in queries(20)))
        await batcher.close()
        return answers

    answers = asyncio.run(ask())
    assert [answer[0].item() for answer in answers] == [2 * index for index in range(20)]
    assert sorted(place for batch in batches for place in batch) == list(range(20))
    assert len(batches) <= 4
    assert max(map(len, batches)) <= 8


def test_a_query_that_fails_fails_alone_and_the_log_has_one_line_a_second(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("hyperfront.apps"), "propagate", True)

    def predict(some):
        if any(query.inputs[0][0] in (3, 4) for query in some):
            raise IndexError("3 is too much")
        return [query.inputs for query in some]

    async def ask() -> list:
        batcher = Batcher(predict, seconds=lambda _: 0.0, max_rows=8)
        return await asyncio.gather(*(batcher.submit(query) for query in queries(6)), return_exceptions=True)

    with caplog.at_level("WARNING", logger=logs.logger.name):
        answers = asyncio.run(ask())
    assert len(caplog.records) == 1 and caplog.records[0].exc_info is None
    assert [isinstance(answer, Refusal) for answer in answers] == [index in (3, 4) for index in range(6)]
    assert "3 is too much" in answers[3].reason


def test_a_large_query_is_taken_apart_and_one_that_is_withdrawn_ends_early():
    seen: list[int] = []
    withdrawn = threading.Event()

    def predict(some):
        seen.append(sum(query.rows for query in some))
        assert len(seen) < 6 or withdrawn.wait(LIMIT)
        return [query.inputs for query in some]

    async def ask() -> None:
        batcher = Batcher(predict, seconds=lambda _: 2 * ON_THE_SPOT, max_rows=8)
        large = Query(HALF, (torch.arange(1000.0)[:, None],), 1000)
        whole = await batcher.submit(large._replace(rows=20, inputs=(large.inputs[0][:20],)))
        assert torch.equal(whole[0], large.inputs[0][:20])
        assert seen == [8, 8, 4]
        request = asyncio.create_task(batcher.submit(large))
        while len(seen) < 6:
            await asyncio.sleep(0.001)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        withdrawn.set()
        await batcher.close()

    asyncio.run(ask())
    assert len(seen) == 6


def test_the_rest_of_a_large_query_is_not_predicted_once_a_piece_has_failed():
    failed: list[int] = []

    def predict(some):
        failed.append(sum(query.rows for query in some))
        raise IndexError("too large")

    async def ask(seconds: float) -> None:
        batcher = Batcher(predict, seconds=lambda _: seconds, max_rows=8)
        with pytest.raises(Refusal, match="too large"):
            await batcher.submit(Query(HALF, (torch.ones(1000, 1),), 1000))
        await batcher.close()

    for seconds in (0.0, 2 * ON_THE_SPOT):
        asyncio.run(ask(seconds))
    assert failed == [8, 8]


# ---- one pass for several rays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("together_from", [2, 10**9], ids=["at once", "one by one"])
def test_both_ways_through_several_rays_agree_with_the_plain_modules(together_from):
    model = small()
    service = serve_model(model, inputs=[TensorMetadata("x", "FP32", (4,))])
    service.predict.together_from = together_from
    some, x = rays(7), torch.randn(12, 4)
    asked = [
        Query(some[[0, 1, 0, 2, 2]], (x[:5],), 5),
        Query(some[1:2], (x[5:8],), 3),
        Query(some[3:4], (x[8:9],), 1),
        Query(some[[4, 5, 6]], (x[9:],), 3),
    ]
    for query, (found,) in zip(asked, service.predict(asked)):
        each = np.resize(query.rays, (query.rows, 2))
        expected = torch.cat([model.at(ray)(row[None]) for ray, row in zip(each, query.inputs[0])])
        torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=1e-6)


# ---- the gate --------------------------------------------------------------------------------------------------------


def identity(predict=lambda some: [query.inputs for query in some], seconds=lambda _: 0.0) -> Service:
    spec = TensorMetadata("x", "FP32", (1,))
    return Service("echo", ("a", "b"), (spec,), (spec,), predict, seconds)


ASK = {"parameters": {"ray": [0.5, 0.5]}, "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [7]}]}
PATH = "/v2/models/echo/infer"


def test_with_a_key_only_health_is_open():
    with serving(identity(), ServiceOptions(api_key="secret")) as client:
        key = {"Authorization": "Bearer secret"}
        for scheme in ("bearer", "BEARER", "Bearer "):
            assert client.get("/v2", {"Authorization": f"{scheme} secret"})[0] == 200
        assert client.get("/v2/health/live")[0] == client.get("/v2/health/ready")[0] == 200
        for path in ("/v2", "/metrics", "/docs", "/openapi.json", "/v1/front", "/v2/models/echo"):
            assert client.call("GET", path)[0] == 401, path
            for wrong in ("Bearer wrong", "secret", "Basic secret", "Bearer", ""):
                assert client.call("GET", path, headers={"Authorization": wrong})[0] == 401, path
            assert client.call("GET", path, headers=key)[0] in (200, 404)
        assert client.post(PATH, ASK)[0] == 401
        assert client.post(PATH, ASK, key)[1]["outputs"][0]["data"] == [7]


def test_a_server_on_this_machine_answers_only_requests_that_name_it():
    """A foreign page whose name points to this machine could read everything otherwise. A key says more than a name."""
    hosts = hosts_for("127.0.0.1")
    with serving(identity(), ServiceOptions(hosts=hosts)) as client:
        for name in ("localhost", "127.0.0.1", f"127.0.0.1:{client.port}", "[::1]:80"):
            assert client.get("/v2", {"Host": name})[0] == 200
        for name in ("evil.example", f"evil.example:{client.port}", ""):
            assert client.get("/v2", {"Host": name})[0] == client.post(PATH, ASK, {"Host": name})[0] == 400
            assert client.get("/v2/health/live", {"Host": name})[0] == 200
    with serving(identity(), ServiceOptions(hosts=hosts, api_key="k")) as client:
        assert client.get("/v2", {"Host": "behind.a.proxy", "Authorization": "Bearer k"})[0] == 200


def test_no_page_may_show_the_documentation_inside_itself():
    with serving(identity()) as client:
        for path in ("/", "/docs"):
            _, headers, page = client.call("GET", path)
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
            assert b"default-src 'none'" in page


def test_pages_of_other_origins_are_let_in_by_name_only():
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    with serving(identity(), ServiceOptions(cors=("https://a.example",), api_key="secret")) as client:
        status, headers, _ = client.call("OPTIONS", PATH, headers=asked)
        assert (status, headers["access-control-allow-origin"]) == (200, "https://a.example")
        assert client.call("OPTIONS", PATH, headers=asked | {"Origin": "https://b.example"})[0] == 400
    with serving(identity()) as client:
        assert "access-control-allow-origin" not in client.call("GET", "/v2", headers=asked)[1]


def test_one_request_too_many_is_refused():
    released = threading.Event()

    def predict(some):
        released.wait(LIMIT)
        return [query.inputs for query in some]

    settings = ServiceOptions(Limits(concurrency=2, seconds=LIMIT))
    with serving(identity(predict, lambda _: 1.0), settings) as client, ThreadPoolExecutor(2) as threads:
        found = [threads.submit(client.post, PATH, ASK) for _ in range(2)]
        until(lambda: client.server.metrics.registry.get_sample_value("hyperfront_requests_in_flight") == 2)
        assert client.post(PATH, ASK)[0] == 429
        assert client.get("/v2/health/live")[0] == 200  # a server at work is alive
        released.set()
        assert [request.result()[0] for request in found] == [200, 200]


def test_a_request_that_takes_too_long_is_given_up():
    released = threading.Event()

    def predict(some):
        released.wait(LIMIT)
        return [query.inputs for query in some]

    with serving(identity(predict, lambda _: 1.0), ServiceOptions(Limits(seconds=1.0))) as client:
        body = json.dumps(ASK).encode()  # sent at once with its headers: the time runs from the first byte
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        answer = client.raw(head + body)
        assert answer.startswith(b"HTTP/1.1 503") and b"deadline" in answer
        released.set()
        until(lambda: client.post(PATH, ASK)[0] == 200)


def test_a_queue_is_bounded_by_the_time_of_each_request():
    """Requests that a slow model cannot answer in time are refused when they come, and the others are all answered."""
    released, predicted = threading.Event(), []

    def predict(some):
        assert released.wait(LIMIT)
        predicted.extend(int(query.inputs[0]) for query in some)
        return [query.inputs for query in some]

    def ask(client: Client, number: int, **parameters) -> tuple[int, dict, bytes]:
        x = ASK["inputs"][0] | {"data": [number]}
        body = json.dumps({"parameters": {"ray": [0.5, 0.5], **parameters}, "inputs": [x]})
        return client.call("POST", PATH, body.encode())

    def estimate(some) -> float:
        estimated.append(len(some))
        return 10.0 * len(some)

    estimated: list[int] = []
    slow = identity(predict, estimate)
    settings = ServiceOptions(Limits(seconds=1000), batch_rows=1)
    with serving(slow, settings) as client, ThreadPoolExecutor(20) as threads:
        found = [threads.submit(ask, client, number) for number in range(20)]
        until(lambda: len(estimated) == 21)  # all are queued, and the first is at work
        for number in range(100, 140):
            status, headers, answer = ask(client, number, timeout=100_000_000)
            assert status == 503 and 1 <= int(headers["retry-after"]) <= 101
            assert "queue" in json.loads(answer)["error"]
        released.set()
        assert [request.result()[0] for request in found] == [200] * 20
        assert ask(client, 200, timeout=100_000_000)[0] == 200
    assert sorted(predicted) == [*range(20), 200]


def test_a_request_past_its_deadline_is_not_predicted():
    released, predicted = threading.Event(), []

    def predict(some):
        assert released.wait(LIMIT)
        predicted.extend(int(query.inputs[0]) for query in some)
        return [query.inputs for query in some]

    async def ask() -> None:
        batcher = Batcher(predict, seconds=lambda some: 2 * ON_THE_SPOT * len(some), max_rows=1)
        loop = asyncio.get_running_loop()
        queries = [Query(HALF, (torch.tensor([[float(number)]]),), 1) for number in range(3)]
        first = asyncio.create_task(batcher.submit(queries[0]))
        second = asyncio.create_task(batcher.submit(queries[1], loop.time() + 1))
        with pytest.raises((TimeoutError, Refusal)):  # on a very slow machine it is refused when it comes
            await second
        last = asyncio.create_task(batcher.submit(queries[2], loop.time() + LIMIT))
        await asyncio.sleep(0)
        released.set()
        await asyncio.gather(first, last)
        await batcher.close()

    asyncio.run(ask())
    assert predicted == [0, 2]


def test_a_request_whose_deadline_passed_before_an_empty_queue_is_late_and_not_predicted():
    predicted = []

    def predict(some):
        predicted.extend(some)
        return [query.inputs for query in some]

    async def ask() -> None:
        batcher = Batcher(predict, seconds=lambda some: 2 * ON_THE_SPOT, max_rows=1)
        with pytest.raises(TimeoutError):
            await batcher.submit(Query(HALF, (torch.ones(1, 1),), 1), asyncio.get_running_loop().time() - 1)
        await batcher.close()

    asyncio.run(ask())
    assert not predicted


def test_an_address_that_only_resembles_one_of_a_model_is_unknown():
    with serving(identity()) as client:
        for end in ("%0A", "/", "%2F", "%00", "?"):
            assert client.post(PATH + end, ASK)[0] == (200 if end == "?" else 404), end


def test_a_fault_of_the_server_is_a_500_in_the_form_of_the_protocol_and_it_goes_on(monkeypatch):
    with serving(identity()) as client:
        with monkeypatch.context() as patch:
            patch.setattr(requests, "decode", lambda *given: 1 / 0)
            status, answer = client.post(PATH, ASK)
            patch.setattr(describe, "metadata", lambda *given: 1 / 0)
            assert client.get("/v2/models/echo") == (500, {"error": failures.BROKEN})
        assert (status, answer) == (500, {"error": failures.BROKEN})
        assert client.post(PATH, ASK)[0] == 200
        samples = scraped(client)
    assert [samples["hyperfront_requests_total", "/v2/models/{name}/infer", status] for status in ("200", "500")] == [
        1,
        1,
    ]


def test_open_requests_are_answered_before_the_end():
    started = threading.Event()

    def predict(some):
        started.set()
        until(lambda: not listening(client.port))  # the server is about to end
        return [query.inputs for query in some]

    with ThreadPoolExecutor(1) as threads:
        with serving(identity(predict, lambda _: 1.0)) as client:
            request = threads.submit(client.post, PATH, ASK)
            assert started.wait(LIMIT)
        assert request.result()[0] == 200


def listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_requests_that_are_open_at_the_end_of_the_grace_are_asked_to_come_again():
    with socket.socket() as connection:
        with serving(identity(), grace=0) as client:
            connection.connect(("127.0.0.1", client.port))
            connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{{".encode())
            until(client.server.metrics.in_flight._value.get)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in answer


# ---- metrics and logs ------------------------------------------------------------------------------------------------


def test_prometheus_reads_the_metrics():
    service = serve_model(small(), name="echo", inputs=[TensorMetadata("x", "FP32", (4,))])
    with serving(service) as client:
        tensor = {"name": "x", "datatype": "FP32", "shape": [2, 4], "data": [0] * 8}
        for index in range(5):
            ask = {"parameters": {"ray": [0.5, 0.5 + index % 2]}, "inputs": [tensor]}
            assert client.post(PATH, ask)[0] == 200
        assert client.post(PATH, {})[0] == 400
        for index in range(20):
            client.call("GET", f"/nowhere/{index}")
        status, headers, _ = client.call("GET", "/metrics")
        assert (status, headers["content-type"].split(";")[0]) == (200, "text/plain")
        until(lambda: scraped(client)["hyperfront_cache_hits_total", None, None] == service.cache.hits)  # once a second
        samples = scraped(client)
    route = "/v2/models/{name}/infer"
    answered = [samples["hyperfront_requests_total", route, status] for status in ("200", "400")]
    assert answered == [5, 1]
    assert samples["hyperfront_request_seconds_count", route, None] == 6
    assert samples["hyperfront_requests_total", "other", "404"] == 20
    assert samples["hyperfront_batch_rows_sum", None, None] == 10
    assert samples["hyperfront_cache_bytes", None, None] == service.cache.nbytes > 0
    assert service.cache.hits >= 3


def scraped(client: Client) -> dict[tuple[str, str | None, str | None], float]:
    """The values of the metrics by name, route and status."""
    return {
        (sample.name, sample.labels.get("route"), sample.labels.get("status")): sample.value
        for family in text_string_to_metric_families(client.call("GET", "/metrics")[2].decode())
        for sample in family.samples
    }


def test_every_request_is_a_line_of_json():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    logs.logger.addHandler(handler)
    level = logs.logger.level
    logs.logger.setLevel("INFO")
    try:
        with serving(identity()) as client:
            client.call("POST", PATH, json.dumps(ASK).encode(), {"X-Request-ID": "mine"})
            client.call("GET", '/"%0a%7f?secret=1', headers={"X-Request-ID": 'a"b'})
    finally:
        logs.logger.removeHandler(handler)
        logs.logger.setLevel(level)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    first, second = (line for line in lines if line["event"] == "request")
    assert {key: first[key] for key in ("id", "method", "path", "status", "rows", "rays", "level")} == {
        "id": "mine",
        "method": "POST",
        "path": PATH,
        "status": 200,
        "rows": 1,
        "rays": 1,
        "level": "info",
    }
    assert first["ms"] > 0
    assert (second["status"], second["id"]) == (404, 'a"b')
    assert "secret" not in second["path"]


def test_the_page_explains_every_route_and_loads_nothing():
    with serving(identity()) as client:
        page = client.call("GET", "/docs")[2].decode()
        document = client.get("/openapi.json")[1]
    assert not re.search(r"(src|href)=[\"']?(http|//)", page)
    assert "<script" not in page
    for path in document["paths"]:
        assert f"<code>{path}</code>" in page

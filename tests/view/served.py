# SPDX-License-Identifier: Apache-2.0
"""`contrail view` as a child process, and requests to it."""
import http.client
import json
import subprocess
import urllib.parse

PATIENCE = 60  # seconds, for anything


class Served:
    def __init__(self, contrail, *words, no_open=True, **options):
        quiet = ["--no-open"] if no_open else []
        self.process = subprocess.Popen([contrail, "view", *quiet, "--timeout", "10m", *words],
                                        stdout=subprocess.PIPE, text=True, **options)
        self.address = self.process.stdout.readline().strip()
        parts = urllib.parse.urlsplit(self.address)
        self.port = parts.port
        self.token = urllib.parse.parse_qs(parts.query).get("token", [""])[0]

    def __enter__(self):
        return self

    def __exit__(self, *how):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.process.stdout.close()

    def request(self, path, method="GET", body=None, token=True, host=None, **headers):
        """Returns the status, the headers and the bytes of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            if token:
                connection.putheader("Authorization", f"Bearer {token if isinstance(token, str) else self.token}")
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def ask(self, path, **words):
        """The JSON of an answer, which must be a good one."""
        query = urllib.parse.urlencode({name.rstrip("_"): value for name, value in words.items()})
        status, _, body = self.request(f"/api/{path}?{query}")
        assert status == 200, (path, words, status, body[:500])
        return json.loads(body)

    def post(self, path, **words):
        status, _, body = self.request(f"/api/{path}", "POST", json.dumps(words).encode())
        assert status == 200, (path, words, status, body[:500])
        return json.loads(body)

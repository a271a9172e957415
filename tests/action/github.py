"""As much of GitHub as a comment needs, on loopback. Writes down every request; prints its address."""

import http.server
import json
import sys

COMMENTS = []


class GitHub(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def request(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        path = self.path.split("?")[0]
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps({"method": self.command, "path": path, "body": body}) + "\n")
        if path == "/user":
            return self.answer(403, {"message": "Resource not accessible by integration"})
        if not path.endswith("/issues/7/comments"):
            return self.answer(404, {"message": "Not Found"})
        if self.command == "GET":
            return self.answer(200, COMMENTS)
        number = len(COMMENTS) + 1
        comment = {
            "id": number,
            "node_id": "x",
            "url": f"https://github.test/api/{number}",
            "html_url": f"https://github.test/sample/sample/pull/7#issuecomment-{number}",
            "body": body["body"],
            "user": {"login": "github-actions[bot]", "id": 41898282, "type": "Bot"},
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
        }
        COMMENTS.append(comment)
        return self.answer(201, comment)

    do_GET = do_POST = do_PATCH = do_DELETE = request

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), GitHub)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

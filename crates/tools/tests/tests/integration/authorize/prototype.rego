package envoy.authz

import input.attributes.request.http as request

default allow = false

allow = answer {
    request.method == "GET"
    request.headers["token"] == "admin"
    answer := {"allowed": true, "headers": {"x-secure": "admin"}}
}

allow = answer {
    request.method == "GET"
    request.headers["token"] != "admin"
    answer := {"allowed": true, "headers": {"x-secure": "user"}}
}

allow = answer {
    request.method == "POST"
    request.headers["clientip"] == "192.168.252.20"
    answer := {"allowed": true, "headers": {"x-secure": "user"}}
}

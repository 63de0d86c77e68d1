package fence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"holdfast/fence"
)

// put serves a PUT of a path with the given fences in its header.
func put(ctx context.Context, h http.Handler, path string, fences ...string) *http.Response {
	r := httptest.NewRequestWithContext(ctx, http.MethodPut, path, strings.NewReader("new"))
	for _, f := range fences {
		r.Header.Add(fence.Header, f)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer := w.Result()
	answer.Request = r
	return answer
}

func path(r *http.Request) string { return r.URL.Path }

// TestHandler sends requests one after the other: some reach the handler, and the others get a refusal.
func TestHandler(t *testing.T) {
	served := 0
	h := fence.NewGuard(2).Handler(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		w.WriteHeader(http.StatusNoContent)
	}))
	for i, tt := range []struct {
		path   string
		fences []string
		status int
		body   string
	}{
		{"/a", []string{"1024.3"}, 204, ""},
		{"/a", []string{"1024.3"}, 204, ""},
		{"/a", []string{"1030.1"}, 204, ""},
		{"/a", []string{"1024.3"}, 412, `write "/a": fence 1024.3 is older than 1030.1: the lock has another holder now`},
		{"/b", []string{"1024.3"}, 204, ""},
		{"/a", nil, 400, `fence token "": 0 headers Holdfast-Fence: must be one`},
		{"/a", []string{"1030.1", "1030.1"}, 400, `fence token "": 2 headers Holdfast-Fence: must be one`},
		{"/a", []string{"1030"}, 400, `fence token "1030": must be INDEX.POSITION without leading zeros, such as 1024.3; ` +
			`at most 140737488355327.65535`},
		{"/a", []string{"0.0"}, 400, `fence token "0.0": no lock has it: must be 0.1 to 140737488355327.65535`},
		{"/" + strings.Repeat("a", 4096), []string{"1.1"}, 400, `name of a resource has 4097 bytes: must have at most 4096`},
		{"/c", []string{"1.1"}, 503, `write "/c": the guard keeps the tokens of 2 resources already: forget some, or make ` +
			`it larger`},
	} {
		before := served
		answer := put(t.Context(), h, tt.path, tt.fences...)
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != tt.status || strings.TrimSpace(string(body)) != tt.body ||
			(served > before) != (tt.status == 204) {
			t.Errorf("request %d: %d %s, %v; served %v", i, answer.StatusCode, body, err, served > before)
		}
		lost := fence.CheckResponse(answer)
		if tt.status == 412 && !stale(lost, 1024<<16|3, 1030<<16|1) || tt.status != 412 && lost != nil {
			t.Errorf("request %d: the client takes it for %v", i, lost)
		}
	}
}

// TestARequestThatWaits: a request waits for the previous request. A newer request makes it stale, and a request whose
// context ends meanwhile is not served.
func TestARequestThatWaits(t *testing.T) {
	guardBubble(t, func(w *writers) {
		ctx, cancel := context.WithCancelCause(context.Background())
		h := w.guard.Handler(func(*http.Request) string { return "a" }, http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) { w.t.Error("served") }))
		end := w.lasting(5)
		answers := make(chan string, 2)
		send := func(ctx context.Context, token fence.Token) {
			go func() {
				answer := put(ctx, h, "/", token.String())
				answers <- fmt.Sprint(token, " ", answer.StatusCode)
			}()
			synctest.Wait()
		}
		send(context.Background(), 6)
		send(ctx, 7)
		cancel(errors.New("gone"))
		if got := <-answers; got != "0.7 503" {
			w.t.Errorf("the request that ended: %s", got)
		}
		end()
		if got := <-answers; got != "0.6 412" {
			w.t.Errorf("the request that became stale: %s", got)
		}
		w.ended(5)
	})
}

// TestOtherRefusals: a 412 that is not about a fence is no loss of a lock.
func TestOtherRefusals(t *testing.T) {
	fenced := http.Header{}
	fence.SetHeader(fenced, 1)
	fence.SetHeader(fenced, 2)
	for i, r := range []*http.Response{
		{StatusCode: 412, Header: http.Header{}, Request: &http.Request{Header: fenced}},
		{StatusCode: 412, Header: fenced, Request: &http.Request{Header: http.Header{}}},
		{StatusCode: 412, Header: fenced},
		{StatusCode: 409, Header: fenced, Request: &http.Request{Header: fenced}},
	} {
		if err := fence.CheckResponse(r); err != nil {
			t.Errorf("response %d: %v", i, err)
		}
	}
}

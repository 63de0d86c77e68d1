package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/ports"
	"holdfast/test/bubble"
)

// unansweredNode is the host of a console whose node does not answer. dials is called for each client that the console
// creates.
func unansweredNode(dials func()) ports.ConsoleHost {
	return ports.ConsoleHost{
		Logger: hclog.NewNullLogger(), Address: "n1:7400",
		Dialer: func(*http.Request) func(context.Context, string) (net.Conn, error) {
			dials()
			return func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		},
	}
}

// 200 people with different tokens who return repeatedly keep their clients. With 64 places they evicted each other all
// the time: 200 callers in 5 rounds had 1,000 clients, each with new connections. The cache has a bound.
func TestCallersKeepTheirClients(t *testing.T) {
	made := 0
	c := newCallers(unansweredNode(func() { made++ }))
	defer c.close()
	ask := func(caller int) {
		r := httptest.NewRequest(http.MethodGet, "/ui/", nil)
		r.Header.Set("Authorization", "Bearer "+strconv.Itoa(caller))
		_, done, err := c.acquire(r)
		if err != nil {
			t.Fatal(err)
		}
		done()
	}
	const people = 200
	for range 5 {
		for i := range people {
			ask(i)
		}
	}
	if made != people {
		t.Errorf("%d people in 5 rounds have %d clients", people, made)
	}
	for i := range maxCallers {
		ask(people + i)
	}
	if n := len(c.byIdentity); n != maxCallers {
		t.Errorf("%d callers are kept, want %d", n, maxCallers)
	}
}

// Pages with the same address share cached content, but a page that reloads because of an event gets no content from
// before the event. It would show old content as live until the next event, which may never come in a quiet cluster.
func TestContentIsNewerThanTheEvent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New(unansweredNode(func() {}))
		defer c.callers.close()
		made := 0
		page := c.page(func(*request) (view, error) {
			made++
			return view{Page: "error", Data: fmt.Sprintf("content %d", made)}, nil
		})
		ask := func() string {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/ui/", nil)
			r.Header.Set(contentHeader, "content")
			page(w, r)
			return w.Body.String()
		}
		first := ask()
		if again := ask(); again != first {
			t.Errorf("without an event between, one page has %q and the other %q", first, again)
		}
		c.events.publish("log", "{}")
		second := ask()
		if second == first || made != 2 {
			t.Errorf("after an event a page has %q again", second)
		}
		if again := ask(); again != second {
			t.Errorf("after the same event, one page has %q and the other %q", second, again)
		}
	})
}

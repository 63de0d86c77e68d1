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

	"holdfast/node"
	"holdfast/test/bubble"
)

// alone is the console of a node whose ports answer nobody. dials is told of each client that it makes.
func alone(dials func()) node.ConsoleHost {
	return node.ConsoleHost{
		Logger: hclog.NewNullLogger(), Address: "n1:7400",
		Dialer: func(*http.Request) func(context.Context, string) (net.Conn, error) {
			dials()
			return func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		},
	}
}

// 200 people with tokens of their own who look again and again keep their clients. With 64 places each took the place
// of one who came back in a moment: 200 callers in 5 rounds had 1,000 clients, each of which dialed anew. Places have a
// bound.
func TestCallersKeepTheirClients(t *testing.T) {
	made := 0
	c := newCallers(alone(func() { made++ }))
	defer c.close()
	ask := func(caller int) {
		r := httptest.NewRequest(http.MethodGet, "/ui/", nil)
		r.Header.Set("Authorization", "Bearer "+strconv.Itoa(caller))
		_, done, err := c.of(r)
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
	if n := len(c.all); n != maxCallers {
		t.Errorf("%d callers are kept, want %d", n, maxCallers)
	}
}

// Pages that show the same share a content for a moment, but a page that asks because of an event gets none that was
// made before the event. It would show that as live until the next event, which a quiet cluster does not have.
func TestNoContentIsOlderThanTheEvent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New(alone(func() {}))
		defer c.callers.close()
		made := 0
		page := c.page(func(*request) (view, error) {
			made++
			return view{Page: "error", Data: fmt.Sprintf("content %d", made)}, nil
		})
		ask := func() string {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/ui/", nil)
			r.Header.Set(partHeader, "content")
			page(w, r)
			return w.Body.String()
		}
		first := ask()
		if again := ask(); again != first {
			t.Errorf("without an event between, one page has %q and the other %q", first, again)
		}
		c.news.tell("log", "{}")
		second := ask()
		if second == first || made != 2 {
			t.Errorf("after an event a page has %q again", second)
		}
		if again := ask(); again != second {
			t.Errorf("after the same event, one page has %q and the other %q", second, again)
		}
	})
}

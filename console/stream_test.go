package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// countingPage counts the writes to a page that reads everything.
type countingPage struct {
	*httptest.ResponseRecorder
	writes int
}

func (r *countingPage) Write(b []byte) (int, error) {
	if r.writes++; r.writes > 1000 {
		return 0, http.ErrHandlerTimeout // a stream that does not end would hang the test
	}
	return r.ResponseRecorder.Write(b)
}

// A page that has closed its half of the connection still reads what the node writes. Its request has ended, and with
// it the stream.
func TestAStreamEndsWithItsRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &Console{events: newEventLog("p")}
		ctx, cancel := context.WithCancel(t.Context())
		const life = 3 * time.Second
		time.AfterFunc(life, cancel)
		page, began := &countingPage{ResponseRecorder: httptest.NewRecorder()}, time.Now()
		c.serveEvents(page, httptest.NewRequestWithContext(ctx, http.MethodGet, "/ui/events", nil))
		if took := time.Since(began); took != life || page.writes != 1 {
			t.Errorf("the stream lives %v and writes %d times, want %v and once", took, page.writes, life)
		}
	})
}

// A HEAD request is answered at once, and keeps no stream open.
func TestHeadOfAStreamEndsAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &Console{events: newEventLog("p")}
		page, began := &countingPage{ResponseRecorder: httptest.NewRecorder()}, time.Now()
		c.serveEvents(page, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/ui/events", nil))
		if took := time.Since(began); took != 0 || page.writes != 0 {
			t.Errorf("the answer took %v and %d writes, want none of either", took, page.writes)
		}
		if got := page.Header().Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("the type is %q", got)
		}
	})
}

package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/ports"
)

// Bad input is the caller's fault, not that of a node behind the console, and the page names the field. Without the
// check a part of a query was ignored: the page showed all, as if there were no filter.
func TestBadInputIsRefusedByName(t *testing.T) {
	t.Parallel()
	c := New(ports.ConsoleHost{
		Logger: hclog.NewNullLogger(), Address: "n1:7400",
		Dialer: func(*http.Request) func(context.Context, string) (net.Conn, error) {
			return func(context.Context, string) (net.Conn, error) { return nil, errors.New("there is no node") }
		},
	})
	t.Cleanup(c.callers.close)
	for _, tt := range []struct{ address, form, shows string }{
		{"sessions?label=%ff", "", "label: must be text in UTF-8"},
		{"sessions?page=%ff", "", "page: must be text in UTF-8"},
		{"deaths?label=a%3D%ff", "", "label: must be text in UTF-8"},
		{"deaths.csv?label=%ff", "", "label: must be text in UTF-8"},
		{"sessions?owner=%zz", "", "query: must be a valid query"},
		{"deaths?owner=1;2", "", "query: must be a valid query"},
		{"tree?path=%ff", "", "path: must be text in UTF-8"},
		{"tree?path=x", "", "must begin with a slash"},
		{"tree?path=/a/../b", "", "paths are never relative"},
		{"locks?root=//", "", "has an empty name"},
		{"sessions/0x1/kill", "why=%ff&confirmed=yes", "why: must be text in UTF-8"},
		{"tree/set", "path=/a&version=0&data=%ff&confirmed=yes", "data: must be text in UTF-8"},
		{"sessions/0x1/extend", "for=10", "for: must be a duration"},
		{"tree/set", "path=/a&data=" + strings.Repeat("x", maxFormBytes), "must be valid and have at most 8388608 bytes"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/"+tt.address, nil)
		if tt.form != "" {
			r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/"+tt.address, strings.NewReader(tt.form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), tt.shows) {
			t.Errorf("%s %s: %d, want 400 and %q:\n%s", tt.address, tt.form, w.Code, tt.shows, w.Body)
		}
	}
	form := strings.NewReader("for=+10m+")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/sessions/0x1/extend", form)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "for 10m0s?") {
		t.Errorf("a duration with spaces around it: %d %s", w.Code, w.Body)
	}
}

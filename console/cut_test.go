package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/ports"
	"holdfast/test/whole"
	"holdfast/tree"
)

// Pages show 1,000 entries of locks, 1,000 contenders of one lock and 100 ephemerals of a session, and report that
// there are more. With one fewer they do not.
func TestPagesSayThatThereIsMore(t *testing.T) {
	const (
		entries, contenders, paths = 1000, 1000, 100
		moreEntries                = "There are more entries than this page shows."
		morePaths                  = "There are more."
	)
	whole.Run(t, func(cluster *whole.Cluster) {
		t := cluster.T
		c := New(ports.ConsoleHost{
			Logger: hclog.NewNullLogger(), Address: "n1:7400",
			Dialer: func(*http.Request) func(context.Context, string) (net.Conn, error) {
				return cluster.Host("browser").Dial
			},
		})
		defer c.callers.close()
		show := func(address string) string {
			t.Helper()
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/"+address, nil))
			if w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", address, w.Code, w.Body)
			}
			return w.Body.String()
		}
		cl := cluster.Client("writer")
		defer cl.Close()
		s := cluster.Session(cl, 30*time.Second)
		in := s.Tree()
		create := func(kind tree.Kind, names ...string) {
			t.Helper()
			var x tree.Transaction
			for _, name := range names {
				x.Then = append(x.Then, tree.Create{Path: name, Kind: kind})
			}
			if _, err := in.Transact(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
		numbered := func(format string, from, to int) (all []string) {
			for i := from; i < to; i++ {
				all = append(all, fmt.Sprintf(format, i))
			}
			return all
		}
		create(tree.Persistent, "/lock", "/many", "/own")
		for _, one := range []struct {
			page, format, shown, more string
			kind                      tree.Kind
			// fit is the largest number of entries that the page shows completely.
			fit int
		}{
			{"locks?root=/lock", "/lock/lock-%010d", "<td>lock</td>", moreEntries, tree.Persistent, contenders},
			{"locks?root=/many", "/many/%d", "", moreEntries, tree.Persistent, entries - 1}, // /many is looked at too
			{"sessions/" + s.ID().String(), "/own/%d", `path=%2Fown%2F`, morePaths, tree.Ephemeral, paths},
		} {
			create(one.kind, numbered(one.format, 0, one.fit)...)
			if body := show(one.page); strings.Contains(body, one.more) ||
				one.shown != "" && strings.Count(body, one.shown) != one.fit {
				t.Errorf("%s with %d entries shows %d, and that there are more: %t", one.page, one.fit,
					strings.Count(body, one.shown), strings.Contains(body, one.more))
			}
			create(one.kind, numbered(one.format, one.fit, one.fit+1)...)
			if body := show(one.page); !strings.Contains(body, one.more) ||
				one.shown != "" && strings.Count(body, one.shown) != one.fit {
				t.Errorf("%s with %d entries shows %d, and that there are more: %t", one.page, one.fit+1,
					strings.Count(body, one.shown), strings.Contains(body, one.more))
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

package guard

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/auth"
	"holdfast/session"
	"holdfast/tree"
)

// answering is the tree's part of a connection that answers each write at once.
type answering struct {
	session.TreeConnection
	keys []uint64
}

func (a *answering) Write(w session.TreeWrite) error {
	a.keys = append(a.keys, w.Key)
	return nil
}

func (a *answering) Next(time.Time) (session.TreeTold, bool) {
	if len(a.keys) == 0 {
		return session.TreeTold{}, false
	}
	key := a.keys[0]
	a.keys = a.keys[1:]
	return session.TreeTold{Answer: &session.TreeAnswer{Key: key, Wrote: &tree.Result{}}}, true
}

// TestSupersLater: a client that says who it is when it is served already is audited from then on, and not before.
func TestSupersLater(t *testing.T) {
	var lines bytes.Buffer
	a := NewAudit(hclog.New(&hclog.LoggerOptions{Output: &lines}), auth.ClientPort())
	conn, named := a.SupersLater(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 4711}, &answering{})
	write := func(key uint64) {
		t.Helper()
		if err := conn.Write(session.TreeWrite{Key: key, Write: tree.NumberedWrite{Transaction: tree.Transaction{
			Then: []tree.Op{tree.Delete{Path: "/hidden", Version: tree.Any}},
		}}}); err != nil {
			t.Fatal(err)
		}
		if _, ok := conn.Next(time.Time{}); !ok {
			t.Fatal("no answer")
		}
	}
	write(1)
	if lines.Len() > 0 {
		t.Errorf("audited before it was super: %s", lines.String())
	}
	named("root")
	write(2)
	for _, want := range []string{auth.SuperWrites, "super:root", "10.0.0.7:4711", "/hidden"} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("no %q in %s", want, lines.String())
		}
	}
	if n := strings.Count(lines.String(), "\n"); n != 1 {
		t.Errorf("%d lines, want 1: %s", n, lines.String())
	}
}

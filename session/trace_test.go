package session_test

import (
	"strings"
	"testing"

	"holdfast/session"
)

// A traceparent comes back as it went in; anything else is no trace, and is never an error.
func TestTrace(t *testing.T) {
	const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	one := session.ParseTrace(valid)
	if one.String() != valid || session.TraceFrom(one.Bytes()).String() != valid {
		t.Errorf("got %v, want %s", one, valid)
	}
	if later := session.ParseTrace("cc" + valid[2:] + "-more"); later.String() != valid {
		t.Errorf("a later version: got %v", later)
	}
	for _, bad := range []string{
		"", valid + "-more", valid[:54], "ff" + valid[2:], strings.ToUpper(valid), "zz" + valid[2:],
		strings.Replace(valid, "0af7651916cd43dd8448eb211c80319c", strings.Repeat("0", 32), 1),
		strings.Replace(valid, "b7ad6b7169203331", strings.Repeat("0", 16), 1), strings.Replace(valid, "-", "_", 1),
		strings.Repeat("0", 1<<20),
	} {
		if got := session.ParseTrace(bad); got != nil {
			t.Errorf("%.80q: got %v", bad, got)
		}
	}
	for _, bad := range [][]byte{nil, one.Bytes()[1:], append(one.Bytes(), 0), make([]byte, session.TraceBytes)} {
		if got := session.TraceFrom(bad); got != nil {
			t.Errorf("%x: got %v", bad, got)
		}
	}
	hostile := make([]byte, 1<<20)
	if n := testing.AllocsPerRun(100, func() { session.TraceFrom(hostile) }); n > 0 {
		t.Errorf("a trace of a megabyte costs %v allocations", n)
	}
}

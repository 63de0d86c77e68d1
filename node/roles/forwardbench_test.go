package roles

import (
	"testing"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// BenchmarkCheckWrite is what the leader pays to keep an unreadable write out of the log.
func BenchmarkCheckWrite(b *testing.B) {
	encoded, err := form.AppendWrite(nil, tree.NumberedWrite{
		Session: 5, Attachment: 1, Number: 1, Principals: []tree.Principal{{Scheme: "ip", ID: "10.0.0.1"}},
		Transaction: tree.Transaction{Then: []tree.Op{
			tree.Create{Path: "/services/web/instance-17", Kind: tree.Ephemeral, Data: make([]byte, 100)},
		}},
	})
	if err != nil {
		b.Fatal(err)
	}
	w := session.ForwardedWrite{Command: encoded, Weight: 1, Session: 5, Number: 1}
	b.ReportAllocs()
	for b.Loop() {
		if err := checkWrite(&w); err != nil {
			b.Fatal(err)
		}
	}
}

package roles

import (
	"testing"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// encode returns the command of session 5 that writes one operation.
func encode(t *testing.T, number uint64, op tree.Op) []byte {
	t.Helper()
	encoded, err := form.AppendWrite(nil, tree.NumberedWrite{
		Session: 5, Attachment: 1, Number: number, Transaction: tree.Transaction{Then: []tree.Op{op}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// A write that the replicas could not read does not get into the log.
func TestABadWriteStaysOutOfTheLog(t *testing.T) {
	good := session.ForwardedWrite{
		Command: encode(t, 7, tree.Create{Path: "/a", Kind: tree.Persistent}), Weight: 1, Session: 5, Number: 7,
	}
	otherSession, otherNumber, cut, other := good, good, good, good
	otherSession.Session, otherNumber.Number = 6, 8
	cut.Command = cut.Command[:len(cut.Command)-1]
	ack, err := acknowledge([]session.Acknowledged{{Session: 5, UpTo: 1}})
	if err != nil {
		t.Fatal(err)
	}
	other.Command = ack.(session.TreeCommand).Encoded
	if err = checkWrite(&good); err != nil {
		t.Errorf("a good write: %v", err)
	}
	for name, w := range map[string]*session.ForwardedWrite{
		"another session's": &otherSession, "another number's": &otherNumber, "cut off": &cut, "no write": &other,
	} {
		if checkWrite(w) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	heavy := encode(t, 1, tree.DeleteTree{Path: "/a"})
	w := session.ForwardedWrite{Command: heavy, Weight: 1, Session: 5, Number: 1}
	if err := checkWrite(&w); err != nil || w.Weight < tree.DeleteTreeWeight {
		t.Errorf("a DeleteTree weighs %d, %v, want %d or more (U2)", w.Weight, err, tree.DeleteTreeWeight)
	}
}

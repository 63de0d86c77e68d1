package wire

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/internal/porttest"
	"holdfast/tree"
)

// FuzzTreeRequest: a request about the tree that was accepted can be sent again, and is then accepted as the same.
func FuzzTreeRequest(f *testing.F) {
	add := func(m *holdfastv1.ClientMessage) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	add(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Write{Write: WriteProto(1, treeWrite())}})
	for _, q := range treeQueries() {
		add(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Read{Read: QueryProto(1, q)}})
	}
	watches := []tree.WatchSpec{{Path: "/a", Kind: tree.WatchRecursive}}
	add(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_AddWatches{
		AddWatches: AdditionProto(1, tree.Addition{Watches: watches, Since: 7}),
	}})
	add(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_RemoveWatches{
		RemoveWatches: RemovalProto(1, watches),
	}})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &holdfastv1.ClientMessage{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		porttest.OfMessage().Hold(t, len(b), func() {
			switch m := m.GetMessage().(type) {
			case *holdfastv1.ClientMessage_Write:
				w, err := WriteFrom(m.Write, nil)
				again, second := WriteFrom(WriteProto(1, w), nil)
				sameAgain(t, err, second, w, again)
			case *holdfastv1.ClientMessage_Read:
				q, err := QueryFrom(m.Read)
				again, second := QueryFrom(QueryProto(1, q))
				sameAgain(t, err, second, q, again)
			case *holdfastv1.ClientMessage_AddWatches:
				a, err := AdditionFrom(m.AddWatches)
				again, second := AdditionFrom(AdditionProto(1, a))
				sameAgain(t, err, second, a, again)
			case *holdfastv1.ClientMessage_RemoveWatches:
				r, err := RemovalFrom(m.RemoveWatches)
				again, second := RemovalFrom(RemovalProto(1, r))
				sameAgain(t, err, second, r, again)
			}
		})
	})
}

// sameAgain fails when an accepted request is another one, or refused, when it is sent again.
func sameAgain(t *testing.T, first, second error, a, b any) {
	t.Helper()
	if first == nil && (second != nil || !reflect.DeepEqual(a, b)) {
		t.Errorf("%+v became %+v, %v", a, b, second)
	}
}

// FuzzForward: a message of a Forward stream that was accepted can be sent again, and is then accepted as the same.
func FuzzForward(f *testing.F) {
	for _, m := range []proto.Message{ForwardProto(forwarded()), ForwardWelcomeProto(7)} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		porttest.OfMessage().Hold(t, len(b), func() {
			request, response := &peerv1.ForwardRequest{}, &peerv1.ForwardResponse{}
			if proto.Unmarshal(b, request) == nil {
				m, err := ForwardFrom(request)
				if err == nil {
					again, second := ForwardFrom(ForwardProto(m))
					sameAgain(t, nil, second, m, again)
				}
			}
			if proto.Unmarshal(b, response) == nil {
				all, err := WriteRefusalsFrom(response)
				if err == nil {
					again, second := WriteRefusalsFrom(WriteRefusalsProto(all))
					sameAgain(t, nil, second, all, again)
				}
			}
		})
	})
}

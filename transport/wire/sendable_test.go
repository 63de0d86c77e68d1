package wire

import (
	"strings"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"holdfast/tree"
)

// An error can be sent in each form, whatever it quotes: an answer that cannot be sent ends the stream, with all its
// sessions.
func TestErrorsCanBeSent(t *testing.T) {
	_, quota := tree.ParseQuota([]byte("\xff=x"))
	long := "/" + strings.Repeat("é", 100) // byte 128 is within a character
	for name, refused := range map[string]*tree.RefusedError{
		"a long path beyond ASCII":     {Code: tree.NoNode, Verb: "get", Path: long},
		"a quota that is not in UTF-8": {Code: tree.Reserved, Verb: "create", Path: "/a", Detail: quota.Error()},
	} {
		for form, m := range map[string]proto.Message{
			"a failure": FailedProto(1, refused),
			"a result":  WrittenProto(1, tree.Result{Stamp: 1 << 16, Outcome: tree.Outcome{Refused: refused}}),
			"a status":  status.Convert(Status(refused)).Proto(),
		} {
			if _, err := proto.Marshal(m); err != nil {
				t.Errorf("%s in %s: %v", name, form, err)
			}
		}
		got, ok := Domain(Status(refused)).(*tree.RefusedError) //nolint:errorlint // the error itself, which wraps nothing
		if !ok || got.Code != refused.Code || got.Path != refused.Path || got.Detail == "" != (refused.Detail == "") {
			t.Errorf("%s became %v", name, Domain(Status(refused)))
		}
	}
}

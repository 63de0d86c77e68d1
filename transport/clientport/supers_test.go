package clientport

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/metadata"

	"holdfast/auth"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/authz"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// Each write of a super client is a line of the audit with its paths and its outcome, in calls and on streams, also
// when the connection ends before its answer. Reads, and what others write, have no line. No line shows data or a hash.
func TestSuperWritesAreAudited(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		digest, err := wire.DigestFrom("ops:secret")
		if err != nil {
			t.Fatal(err)
		}
		lines := new(auditLines)
		audit := authz.NewAudit(hclog.New(&hclog.LoggerOptions{Output: lines, DisableTime: true}), auth.ClientPort())
		service := &fakeService{}
		newest := withTree(service, func(f *fakeTree, asked any) error {
			if w, ok := asked.(session.TreeWrite); ok && w.Write.Number == 8 {
				f.answer(session.TreeAnswer{Key: w.Key, Wrote: &tree.Result{Outcome: tree.Outcome{
					Refused: &tree.RefusedError{Code: tree.NoNode, Verb: "delete", Path: "/a"},
				}}})
				return nil
			} else if ok && w.Write.Number == 9 {
				return nil // no answer ever
			}
			return answeringTree(f, asked)
		})
		_, network, stop := clientPort(t, Config{Super: digest, Audit: audit}, service)
		defer stop()
		cc := dialPipes(t, network)
		super := metadata.AppendToOutgoingContext(t.Context(), wire.DigestKey, "ops:secret")
		create := createRequest()
		create.Create.Data = []byte("planted-data")
		if _, err = holdfastv1.NewTreeServiceClient(cc).Create(super, create); err != nil {
			t.Fatal(err)
		}
		other := metadata.AppendToOutgoingContext(t.Context(), wire.DigestKey, "other:secret")
		if _, err = holdfastv1.NewTreeServiceClient(cc).Create(other, createRequest()); err != nil {
			t.Fatal(err)
		}
		streamed, hangUp := context.WithCancel(super)
		stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(cc).Connect(streamed))
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, readMessage(2, 0))
		wantTexts(t, stream, "read 2 at 71")
		send(t, stream, writeMessage(3, 7, 7))
		wantTexts(t, stream, "written 3 at 327680")
		send(t, stream, writeMessage(4, 7, 8))
		receiveAnswers(t, stream, 1)
		send(t, stream, writeMessage(5, 7, 9))
		synctest.Wait()
		if asked := newest().requests(); len(asked) != 4 {
			t.Fatalf("the node was asked %v", kinds(asked))
		}
		hangUp()
		synctest.Wait()
		all := lines.all()
		want := []string{
			`then=[create "/a"]" outcome=done`, `then=[delete "/a"]" outcome=done`, `error="delete /a: the entry does not exist (NO_NODE)"`,
			`outcome=failed`,
		}
		if len(all) != len(want) {
			t.Fatalf("got %d lines, want %d:\n%s", len(all), len(want), strings.Join(all, ""))
		}
		for i, line := range all {
			if !strings.Contains(line, `action="write as super" who=super:ops from=pipe`) ||
				!strings.Contains(strings.ReplaceAll(line, `\`, ""), want[i]) ||
				strings.Contains(line, "planted") || strings.Contains(line, strings.TrimPrefix(digest, "ops:")) {
				t.Errorf("line %d: %s, want %s", i, line, want[i])
			}
		}
		done, failed := audit.Count(auth.SuperWrites, authz.Done), audit.Count(auth.SuperWrites, authz.Failed)
		if done != 2 || failed != 2 {
			t.Errorf("counted %d done and %d failed, want 2 and 2", done, failed)
		}
	})
}

package ports

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"holdfast/node/config"
	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client's own words, through the client port
	"holdfast/transport/authz"
)

// What operators do goes to the logger that is meant for it, which writes it at every level of the log.
func TestTheAuditHasItsLogger(t *testing.T) {
	var log, audit bytes.Buffer
	a, err := openAccess(&Config{
		Logger:   hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn}),
		Audit:    hclog.New(&hclog.LoggerOptions{Output: &audit, Level: hclog.Info}),
		Settings: config.Config{Auth: config.Auth{Mode: authz.None}},
	})
	if err != nil {
		t.Fatal(err)
	}
	info := grpc.UnaryServerInfo{FullMethod: holdfastv1.ClusterService_UndrainNode_FullMethodName}
	_, err = a.authorizer.Unary(t.Context(), &holdfastv1.UndrainNodeRequest{Node: 1}, &info,
		func(context.Context, any) (any, error) { return nil, nil })
	if err != nil || !strings.Contains(audit.String(), "undrain node") || log.Len() > 0 {
		t.Errorf("%v; the audit is %q, the log %q", err, audit.String(), log.String())
	}
}

// tornFile takes the first bytes of what is written while it has no room.
type tornFile struct {
	bytes.Buffer
	full bool
}

var errNoRoom = errors.New("no room")

func (f *tornFile) Write(b []byte) (int, error) {
	if !f.full {
		return f.Buffer.Write(b)
	}
	n, _ := f.Buffer.Write(b[:min(4, len(b))])
	f.full = false
	return n, errNoRoom
}

// A line of which only a part was written spoils no other line.
func TestAuditFileAfterATornLine(t *testing.T) {
	file := &tornFile{full: true}
	f := &auditFile{file: file, log: hclog.NewNullLogger()}
	for _, line := range []string{"one is torn\n", "two\n", "three\n"} {
		if _, err := f.Write([]byte(line)); err != nil && !errors.Is(err, errNoRoom) {
			t.Error(err)
		}
	}
	if got, want := file.String(), "one \ntwo\nthree\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
}

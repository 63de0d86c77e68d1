package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// Text that no message can hold is refused before it is sent. Otherwise the stream that is to send it ends, and so does
// each one after it.
func TestTextIsUTF8(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		const bad = "\xff"
		acl := tree.ACL{{Permissions: tree.All, Scheme: tree.X509, ID: bad}}
		for name, call := range map[string]func(ctx context.Context) error{
			"name of a child": func(ctx context.Context) error {
				_, err := cl.Tree().ListPage(ctx, "/", Listing{After: bad})
				return err
			},
			"prefix of paths": func(ctx context.Context) error {
				_, err := s.Tree().EphemeralsPage(ctx, EphemeralsOf{Session: s.ID(), Prefix: "/" + bad})
				return err
			},
			"path": func(ctx context.Context) error {
				_, err := cl.Tree().EphemeralsPage(ctx, EphemeralsOf{Session: s.ID(), After: "/" + bad})
				return err
			},
			"list of a new entry": func(ctx context.Context) error {
				_, err := s.Tree().Create(ctx, "/a", nil, CreateOptions{ACL: acl})
				return err
			},
			"new list": func(ctx context.Context) error {
				_, err := s.Tree().SetACL(ctx, "/", tree.ACL{{Permissions: tree.Read, Scheme: bad}})
				return err
			},
			"list in a will": func(ctx context.Context) error {
				will := tree.Will{Transaction: tree.Transaction{Then: []tree.Op{tree.SetACL{Path: "/", ACL: acl}}}}
				_, err := s.Tree().Set(ctx, "/", nil, WithWill(will))
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := call(ctx); !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	})
}

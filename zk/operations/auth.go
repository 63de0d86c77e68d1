package operations

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/transport/ratelimit"
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// auth adds principals of the client, for its later requests.
func (h *Handler) auth(r *queue.Request, b jute.AuthRequest) {
	all := h.Principals()
	switch b.Scheme {
	case tree.Digest:
		all = withDigest(all, textOf(b.Auth), h.super)
	case tree.IP: // the client has its address already
	case tree.X509:
		if !slices.ContainsFunc(all, func(p tree.Principal) bool { return p.Scheme == tree.X509 }) {
			all = nil
		}
	default:
		all = nil
	}
	if all == nil || tree.CheckPrincipals(all) != nil {
		h.counters.AuthFailed.Add(1)
		h.refuseAndEnd(r, jute.AuthFailed, fmt.Errorf("%w: authentication as %q", ErrRefused, shortened(b.Scheme)))
		return
	}
	h.mu.Lock()
	h.principals = all
	h.mu.Unlock()
	h.tree.SetPrincipals(all)
	h.queue.AnswerInTurn(r, func(int64) *jute.Encoder { return jute.Reply(r.Xid, 0, jute.OK) })
}

// textOf returns the text of credentials like ZooKeeper: an invalid UTF-8 byte becomes U+FFFD. Operators see the name
// of a digest, and their messages only allow UTF-8.
func textOf(credentials []byte) string { return string([]rune(string(credentials))) }

func shortened(text string) string {
	const limit = 32
	if len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}

// withDigest adds the principals of a NAME:PASSWORD, or of a NAME alone. It returns nil without a name.
func withDigest(all []tree.Principal, credentials, super string) []tree.Principal {
	digest, ok := tree.DigestOf(credentials)
	if !ok {
		return nil
	}
	add := ratelimit.OfDigest(digest, super)
	if slices.Contains(all, add[0]) {
		return all
	}
	return slices.Concat(all, add)
}

// whoAmI returns the client's principals, of a digest the name.
func (h *Handler) whoAmI(r *queue.Request) {
	h.queue.AnswerInTurn(r, func(zxid int64) *jute.Encoder {
		all := h.Principals()
		e := jute.Reply(r.Xid, zxid, jute.OK)
		e.Int(int32(len(all))) //nolint:gosec // at most some
		for _, p := range all {
			user := p.ID
			if p.Scheme == tree.Digest {
				user, _, _ = strings.Cut(p.ID, ":")
			}
			e.String(p.Scheme)
			e.String(user)
		}
		return e
	})
}

package zk

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"holdfast/transport/gate"
	"holdfast/transport/secure"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// principalsOfConnection returns whom the node vouches for before the client has said anything (P1): its address, and
// the subject of its certificate.
func (c *conn) principalsOfConnection() ([]tree.Principal, error) {
	var all []tree.Principal
	if ip, ok := gate.IPOf(c.net.RemoteAddr()); ok {
		all = append(all, tree.Principal{Scheme: tree.IP, ID: ip.String()})
	}
	if certificate := secure.PeerCertificate(c.net); certificate != nil {
		all = append(all, tree.Principal{Scheme: tree.X509, ID: secure.SubjectOf(certificate)})
	}
	return all, tree.CheckPrincipals(all)
}

func addressOf(n net.Conn) string {
	if a := n.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}

// prepareAuth says who the client is, for what it asks from then on.
func prepareAuth(c *conn, r *request) {
	b := r.Body.(jute.AuthRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	all := c.who()
	switch b.Scheme {
	case tree.Digest:
		all = withDigest(all, textOf(b.Auth), c.server.cfg.Super)
	case tree.IP: // it is one already
	case tree.X509:
		if !slices.ContainsFunc(all, func(p tree.Principal) bool { return p.Scheme == tree.X509 }) {
			all = nil
		}
	default:
		all = nil
	}
	if all == nil || tree.CheckPrincipals(all) != nil {
		c.server.stats.unauthentic.Add(1)
		c.refuseAnd(r, jute.AuthFailed, fmt.Errorf("%w: authentication as %q", errRefused, shown(b.Scheme)))
		return
	}
	c.mu.Lock()
	c.principals = all
	c.mu.Unlock()
	c.tree.SetPrincipals(all)
	c.inTurn(r, func(int64) *jute.Encoder { return jute.Reply(r.Xid, 0, jute.OK) })
}

// textOf returns the text of credentials as ZooKeeper makes it: a byte that is no UTF-8 becomes U+FFFD. The name is
// shown to operators, and no message to them may have another text.
func textOf(credentials []byte) string { return string([]rune(string(credentials))) }

func shown(text string) string {
	const most = 32
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// withDigest adds the principals of a NAME:PASSWORD, or of a NAME alone; nil without a name.
func withDigest(all []tree.Principal, credentials, super string) []tree.Principal {
	digest, ok := tree.DigestOf(credentials)
	if !ok {
		return nil
	}
	add := gate.OfDigest(digest, super)
	if slices.Contains(all, add[0]) {
		return all
	}
	return slices.Concat(all, add)
}

// prepareWhoAmI tells the client whom the node vouches for: of a digest its name.
func prepareWhoAmI(c *conn, r *request) {
	c.inTurn(r, func(zxid int64) *jute.Encoder {
		all := c.who()
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

package tree

import "strings"

// Shown returns the principal for people, as SCHEME:ID. It omits the hash of a [Digest], which is a secret: with the
// hash one can search for the password.
func (p Principal) Shown() string {
	switch {
	case p.Scheme == Digest:
		name, _, _ := strings.Cut(p.ID, ":")
		return p.Scheme + ":" + name
	case p.ID == "":
		return p.Scheme
	default:
		return p.String()
	}
}

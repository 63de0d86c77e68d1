package tree

import "strings"

// Shown returns the principal for people, SCHEME:ID. The hash of a [Digest] is a secret, and left out: whoever knows it
// can look for the password.
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

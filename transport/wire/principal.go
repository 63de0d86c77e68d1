package wire

import (
	"strconv"
	"strings"

	"holdfast/session"
)

// PrincipalKey is the metadata key with which a client names its principal.
const PrincipalKey = "holdfast-principal"

// ValidPrincipal reports whether a client may have this name: 1 to [session.MaxPrincipal] printable ASCII characters,
// no space at either end.
func ValidPrincipal(name string) bool {
	return name != "" && len(name) <= session.MaxPrincipal && strings.TrimSpace(name) == name &&
		strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// PrincipalLimit describes the names that [ValidPrincipal] accepts.
func PrincipalLimit() string {
	return "1 to " + strconv.Itoa(session.MaxPrincipal) + " printable ASCII characters, no space at either end"
}

package store

import "strings"

// CountOwned returns how many entries a session owns, most if there are more. It looks at each of them (U2).
func (r *Root) CountOwned(owner uint64, most int) (n int) {
	if r.owned.Len() == 0 {
		return 0
	}
	prefix := numbered(owner, "")
	r.owned.Ascend(prefix, func(key string, _ struct{}) bool {
		if n == most || !strings.HasPrefix(key, prefix) {
			return false
		}
		n++
		return true
	})
	return n
}

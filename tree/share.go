package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// MaxShare is the length of what [ShareOf] returns in bytes, at most.
const MaxShare = MaxPrincipal + 1

// ShareOf returns whose share of the room of all a client takes that has these principals (X3): the subject of its
// certificate, or its address without one, of an IPv6 address the network of 64 bits. Digests cost nothing: a client could
// have any number of shares with them.
func ShareOf(principals []Principal) (share string) {
	for _, p := range principals {
		switch p.Scheme {
		case X509:
			return p.String()
		case IP:
			if share == "" {
				share = networkOf(p).String()
			}
		}
	}
	return share
}

// ShareNumber returns a number for what [ShareOf] returns, the same at all nodes: a write takes it to the leader in the
// place of up to a kilobyte. It is part of a SHA-256, so that nobody can choose a name to share another's room.
func ShareNumber(principals []Principal) uint64 {
	sum := sha256.Sum256([]byte(ShareOf(principals)))
	return binary.BigEndian.Uint64(sum[:])
}

func networkOf(p Principal) Principal {
	a, err := netip.ParseAddr(p.ID)
	if err != nil {
		return p
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		p.ID = netip.PrefixFrom(a, 64).Masked().String()
	} else {
		p.ID = a.String()
	}
	return p
}

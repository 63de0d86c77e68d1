package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// MaxShare is the largest length of a result of [ShareOf], in bytes.
const MaxShare = MaxPrincipal + 1

// ShareOf returns the identity whose share of the cluster's memory a client with these principals uses (X3 kept
// results): the subject of its certificate; without a certificate its address, or for an IPv6 address the network of 64
// bits. Digests are no identity here: a client could make up any number of them.
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

// ShareNumber returns a number for the result of [ShareOf], the same at all nodes. A write carries this number to the
// leader instead of up to a kilobyte of text. The number is part of a SHA-256, so that no client can choose a name with
// another client's number.
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

package tree

import "net/netip"

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

package wire

import (
	"fmt"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

func digestBytes(d session.StateDigest) []byte {
	if d.Index == 0 {
		return nil
	}
	return d.Digest[:]
}

// digestFrom returns the digest of a state. Index 0 without bytes is no digest.
func digestFrom(field string, index uint64, digest []byte) (session.StateDigest, error) {
	var d session.StateDigest
	switch {
	case index == 0 && len(digest) == 0:
		return d, nil
	case index == 0 || len(digest) != len(d.Digest):
		return d, &session.FieldError{Field: field, Limit: fmt.Sprintf("%d bytes, with an index", len(d.Digest))}
	}
	return session.StateDigest{Index: index, Digest: [16]byte(digest)}, nil
}

func comparisonProto(v session.Comparison) *peerv1.Comparison {
	if v.Index == 0 {
		return nil
	}
	p := &peerv1.Comparison{Index: v.Index}
	if v.Agreed {
		p.Digest = v.Digest[:]
	}
	return p
}

func comparisonFrom(p *peerv1.Comparison) (session.Comparison, error) {
	if len(p.GetDigest()) == 0 {
		return session.Comparison{StateDigest: session.StateDigest{Index: p.GetIndex()}}, nil
	}
	d, err := digestFrom("heartbeat.compared", p.GetIndex(), p.GetDigest())
	return session.Comparison{StateDigest: d, Agreed: true}, err
}

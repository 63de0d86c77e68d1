package tree

import (
	"fmt"
	"strconv"
	"strings"
)

// Paths that belong to the tree itself. No client may delete them. Only [Super] may write at and below [QuotaPath],
// unless [Limits.OpenQuotas] is set (P3 quotas).
const (
	ReservedPath = "/zookeeper"
	QuotaPath    = "/zookeeper/quota"
)

// Names of the two entries of a quota, as ZooKeeper's command line writes them. The quota of /a has
// /zookeeper/quota/a/zookeeper_limits and /zookeeper/quota/a/zookeeper_stats.
const (
	QuotaLimitsName = "zookeeper_limits"
	QuotaStatsName  = "zookeeper_stats"
)

// NoQuota is the value of an unset limit.
const NoQuota = -1

// MaxQuotaWalk is the largest number of entries that one transaction counts for new quotas. A quota for a larger
// subtree is refused. The root is an exception, because its count is always known.
const MaxQuotaWalk = 100_000

// Quota limits the subtree of an entry, including the entry. [NoQuota] is no limit. Count and Bytes are soft limits
// that only report, as in ZooKeeper; the state refuses a change that would exceed a hard limit. Bytes count data only.
type Quota struct{ Count, Bytes, CountHard, BytesHard int64 }

// Usage is the size of the subtree of an entry, including the entry.
type Usage struct{ Count, Bytes int64 }

// Exceeded reports whether u is above any limit of a quota.
func (q Quota) Exceeded(u Usage) bool {
	return above(u.Count, q.Count) || above(u.Bytes, q.Bytes) || above(u.Count, q.CountHard) || above(u.Bytes, q.BytesHard)
}

func above(has, limit int64) bool { return limit > NoQuota && has > limit }

// Keys of a quota's text.
const (
	countKey     = "count"
	bytesKey     = "bytes"
	countHardKey = "countHardLimit"
	bytesHardKey = "byteHardLimit"
)

// ParseQuota reads the data of an entry named [QuotaLimitsName]: pairs of a key and a number, separated by commas or
// semicolons, such as count=5,bytes=-1=;byteHardLimit=1000. Old programs need the third equals sign, which has no
// meaning. A missing key, an empty number and a negative number are no limit. Unknown keys are ignored. The error is a
// [FieldError].
func ParseQuota(data []byte) (Quota, error) {
	q := Quota{Count: NoQuota, Bytes: NoQuota, CountHard: NoQuota, BytesHard: NoQuota}
	for pair := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return r == ',' || r == ';' }) {
		key, rest, ok := strings.Cut(pair, "=")
		if !ok {
			return Quota{}, wrong("quota", "has %q: must be KEY=NUMBER", beginning(pair))
		}
		text, _, _ := strings.Cut(rest, "=")
		n := int64(NoQuota)
		if text != "" {
			parsed, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return Quota{}, wrong("quota."+beginning(key), "is %q: must be a number", beginning(text))
			}
			n = max(parsed, NoQuota)
		}
		switch key {
		case countKey:
			q.Count = n
		case bytesKey:
			q.Bytes = n
		case countHardKey:
			q.CountHard = n
		case bytesHardKey:
			q.BytesHard = n
		}
	}
	return q, nil
}

// beginning returns the first bytes of a text that is too long for an error. The errors of [ParseQuota] are in the
// results of writes, and all replicas must have the same results, whatever their release. So this function must never
// change, although it may cut a character.
func beginning(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return text[:maxShown] + "..."
}

// String returns text for [ParseQuota], in the form that ZooKeeper's programs of all releases understand.
func (q Quota) String() string {
	text := Usage{Count: q.Count, Bytes: q.Bytes}.String()
	if q.CountHard <= NoQuota && q.BytesHard <= NoQuota {
		return text
	}
	text += "=" // ends the bytes for programs without support for semicolons
	if q.BytesHard > NoQuota {
		text += fmt.Sprintf(";%s=%d", bytesHardKey, q.BytesHard)
	}
	if q.CountHard > NoQuota {
		text += fmt.Sprintf(";%s=%d", countHardKey, q.CountHard)
	}
	return text
}

// String returns the data that an entry named [QuotaStatsName] shows.
func (u Usage) String() string {
	return fmt.Sprintf("%s=%d,%s=%d", countKey, u.Count, bytesKey, u.Bytes)
}

// QuotaOf returns the entry whose quota the entry at path is part of, if the name of the entry at path is the given
// name: [QuotaLimitsName] or [QuotaStatsName].
func QuotaOf(path, name string) (of string, ok bool) {
	rest, below := strings.CutPrefix(path, QuotaPath)
	if !below {
		return "", false
	}
	of, ok = strings.CutSuffix(rest, "/"+name)
	switch {
	case !ok:
		return "", false
	case of == "":
		return Root, true
	case of[0] != '/':
		return "", false
	default:
		return of, true
	}
}

// InQuotas reports whether path is [QuotaPath] or below. Quotas do not count such entries.
func InQuotas(path string) bool {
	return strings.HasPrefix(path, QuotaPath) && (len(path) == len(QuotaPath) || path[len(QuotaPath)] == '/')
}

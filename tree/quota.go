package tree

import (
	"fmt"
	"strconv"
	"strings"
)

// Paths that belong to the tree itself. Nobody may delete them. Only [Super] writes at and below [QuotaPath], unless
// [Limits.OpenQuotas] is set (P3).
const (
	ReservedPath = "/zookeeper"
	QuotaPath    = "/zookeeper/quota"
)

// Names of the two entries of a quota, as ZooKeeper's command line writes them. Those of /a are
// /zookeeper/quota/a/zookeeper_limits and /zookeeper/quota/a/zookeeper_stats.
const (
	QuotaLimitsName = "zookeeper_limits"
	QuotaStatsName  = "zookeeper_stats"
)

// NoQuota is the value of a limit that is not set.
const NoQuota = -1

// MaxQuotaWalk is the number of entries that one transaction counts for new quotas, at most. A quota for a larger
// subtree is refused, but for that of the root, whose count is always at hand.
const MaxQuotaWalk = 100_000

// Quota is what the subtree of an entry may hold, with the entry itself. [NoQuota] is no limit. Count and Bytes only
// tell, as in ZooKeeper; the state refuses what would pass a hard limit. Bytes are those of data alone.
type Quota struct{ Count, Bytes, CountHard, BytesHard int64 }

// Usage is what the subtree of an entry holds, with the entry itself.
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

// ParseQuota reads the data of an entry named [QuotaLimitsName]: pairs of a key and a number between commas or
// semicolons, such as count=5,bytes=-1=;byteHardLimit=1000. Old programs need the third equals sign, and it says
// nothing. A key that is not there, an empty number and a negative one are no limit. Unknown keys are left alone. The
// error is a [FieldError].
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

// beginning returns the first bytes of a text that is too long to be shown. What [ParseQuota] says is in the results of
// writes, which all replicas have alike, whatever their release: so it stays as it is, though it may cut a character.
func beginning(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return text[:maxShown] + "..."
}

// String returns what [ParseQuota] reads, in the form that ZooKeeper's programs of all releases understand.
func (q Quota) String() string {
	text := Usage{Count: q.Count, Bytes: q.Bytes}.String()
	if q.CountHard <= NoQuota && q.BytesHard <= NoQuota {
		return text
	}
	text += "=" // ends the bytes for programs that know no semicolon
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

// QuotaOf returns the entry whose quota the entry at path belongs to, if its name is the given one: [QuotaLimitsName]
// or [QuotaStatsName].
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

// InQuotas reports whether path is [QuotaPath] or below it. Such entries are in no quota themselves.
func InQuotas(path string) bool {
	return strings.HasPrefix(path, QuotaPath) && (len(path) == len(QuotaPath) || path[len(QuotaPath)] == '/')
}

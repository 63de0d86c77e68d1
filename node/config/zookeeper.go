package config

import (
	"strings"

	"holdfast/zk"
)

// ZooKeeper says how ZooKeeper's clients are served.
type ZooKeeper struct {
	// Words are the four-letter words that are answered, with commas between them; empty for none.
	Words string
}

// Allowed returns the words.
func (z ZooKeeper) Allowed() []string {
	if z.Words == "" {
		return nil
	}
	return strings.Split(z.Words, ",")
}

func zookeeperSettings() []setting {
	return []setting{
		word("zk_words", "srvr", "some of "+strings.Join(zk.Words(), ",")+", with commas between them, or empty",
			func(s string) bool { return zk.CheckWords(ZooKeeper{s}.Allowed()) == nil },
			func(c *Config) *string { return &c.ZooKeeper.Words }).
			helps("four-letter words that zk_listen answers, as with ZooKeeper's 4lw.commands.whitelist; " +
				"isro too with read_only"),
	}
}

package config

import (
	"strings"

	"holdfast/zk"
)

// ZooKeeper says how ZooKeeper's clients are served.
type ZooKeeper struct {
	// FourLetterCommands are the four-letter commands that the port answers, with commas between them; empty for none.
	FourLetterCommands string
}

// Allowed returns the commands.
func (z ZooKeeper) Allowed() []string {
	if z.FourLetterCommands == "" {
		return nil
	}
	return strings.Split(z.FourLetterCommands, ",")
}

func zookeeperSettings() []setting {
	return []setting{
		word("zk_4lw_commands", "srvr", "some of "+strings.Join(zk.Words(), ",")+", with commas between them, or empty",
			func(s string) bool { return zk.CheckWords(ZooKeeper{s}.Allowed()) == nil },
			func(c *Config) *string { return &c.ZooKeeper.FourLetterCommands }).
			helps("four-letter commands that zk_listen answers, as ZooKeeper's 4lw.commands.whitelist; read_only adds isro"),
	}
}

package tree

import (
	"testing"

	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/session"
)

func TestMain(m *testing.M) { clitest.Main(m, New, session.New) }

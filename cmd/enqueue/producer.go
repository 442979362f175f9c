package main

import (
	"errors"

	"nightshift/config"
	"nightshift/internal/cli"
)

// producerOf returns who submits. Names that stand for something else are
// refused: calls counted under them would be held to no limit.
func producerOf(flag string) (string, error) {
	name := cli.Producer(flag)
	if what, remedy := config.RefusedProducer(name); what != "" {
		return "", &cli.Error{Code: cli.ExitUsage, Err: errors.New(what), Hint: remedy}
	}
	return name, nil
}

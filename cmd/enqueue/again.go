package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// again is the command line that was typed, flags before arguments, for a
// person to add to. A Redis URL stands there as a word: it may hold a password.
func again(c *cobra.Command, args []string) string {
	words := []string{c.CommandPath()}
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "redis":
			words = append(words, "--redis", "URL")
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name+strings.TrimSuffix("="+f.Value.String(), "=true"))
		default:
			words = append(words, "--"+f.Name, quote(f.Value.String()))
		}
	})
	for _, arg := range args {
		words = append(words, quote(arg))
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// quote writes a word so that a shell takes it as one.
func quote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

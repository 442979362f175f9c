package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// prepare gives the root command the manners of every program: its streams, the
// common flags, errors that Execute prints, and usage errors with one line and
// a hint in place of the whole usage.
func (e *Env) prepare(root *cobra.Command) {
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.DisableAutoGenTag = true
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.Args = Args
	root.RunE = func(*cobra.Command, []string) error {
		return Usage(listsCommands(root), "a command is missing")
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Usage(seeHelp(c), "%s", plainFlagError(err))
	})
	e.Common.register(root.PersistentFlags())
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if err := noEmptyFlag(c); err != nil {
			return err
		}
		return e.Common.check()
	}
	root.AddCommand(referenceCommand(e))
}

// noEmptyFlag refuses --budget "$NIGHT" where NIGHT is not set: to go on as if
// nothing had been said would be to go on without a budget.
func noEmptyFlag(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" && err == nil {
			err = Usage("give it a value, or leave it out", "--%s is empty", f.Name)
		}
	})
	return err
}

// noSuchCommand refuses an argument where a subcommand is meant.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := listsCommands(c)
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s %s?", c.CommandPath(), strings.Join(near, " or "+c.CommandPath()+" "))
	}
	return Usage(hint, "there is no command %q", args[0])
}

func listsCommands(c *cobra.Command) string {
	if c.HasParent() {
		return c.CommandPath() + " --help lists its commands"
	}
	return c.CommandPath() + " help lists the commands"
}

func seeHelp(c *cobra.Command) string { return c.CommandPath() + " --help shows its flags" }

// plainFlagError words pflag's errors as ours are.
func plainFlagError(err error) string {
	s := err.Error()
	if name, ok := strings.CutPrefix(s, "unknown flag: "); ok {
		return "there is no flag " + name
	}
	return s
}

// Args checks that a command has the arguments that its use line names, in
// capitals: those in brackets may be left out, and the last may be repeated
// where dots follow it. A command with subcommands takes none.
func Args(c *cobra.Command, args []string) error {
	if c.HasSubCommands() {
		return noSuchCommand(c, args)
	}
	names, need, more := arguments(c.Use)
	if len(args) < need {
		return Usage("usage: "+useLine(c), "%s is missing", names[len(args)])
	}
	if len(args) > len(names) && !more {
		return Usage("usage: "+useLine(c), "unexpected argument %q", args[len(names)])
	}
	if i := slices.Index(args, ""); i >= 0 {
		return Usage("usage: "+useLine(c), "%s is empty", names[min(i, len(names)-1)])
	}
	return nil
}

// arguments reads a use line: the names of the arguments in their order, how
// many of them are needed, and whether the last may be repeated.
func arguments(use string) (names []string, need int, more bool) {
	for _, word := range strings.Fields(use)[1:] {
		name, dots := strings.CutSuffix(strings.Trim(word, "[]"), "...")
		if !strings.HasPrefix(word, "[") {
			need++
		}
		names, more = append(names, name), dots
	}
	return names, need, more
}

// useLine is the command line of a command, e.g. "enqueue batch FILE [flags]".
func useLine(c *cobra.Command) string {
	line := c.CommandPath()
	if _, rest, ok := strings.Cut(c.Use, " "); ok {
		line += " " + rest
	}
	if c.HasAvailableLocalFlags() {
		line += " [flags]"
	}
	return line
}

// The parts of Prometheus's promtool that check rules and run their unit tests. promtool itself contains clients of many
// cloud services and of Kubernetes, and compiling those takes most of its time. The unit tests are promtool's own code:
// ../build adds its file unittest.go to this folder's.
//
//	promtool check rules FILE...
//	promtool test rules [--run=GROUP]... FILE...
package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// What unittest.go uses.
const (
	successExitCode = 0
	failureExitCode = 1
)

// parseTime reads the time at which the samples of a test begin: a number of seconds, or RFC 3339.
func parseTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		whole, part := math.Modf(seconds)
		return time.Unix(int64(whole), int64(part*float64(time.Second))).UTC(), nil
	}
	return time.Parse(time.RFC3339Nano, text)
}

func main() {
	arguments := os.Args[1:]
	if len(arguments) < 2 || arguments[1] != "rules" {
		usage()
	}
	var groups, files []string
	for _, argument := range arguments[2:] {
		group, isGroup := strings.CutPrefix(argument, "--run=")
		switch {
		case isGroup && arguments[0] == "test":
			groups = append(groups, group)
		case strings.HasPrefix(argument, "-"):
			usage()
		default:
			files = append(files, argument)
		}
	}
	if len(files) == 0 {
		usage()
	}
	queries := parser.NewParser(parser.Options{})
	switch arguments[0] {
	case "check":
		os.Exit(check(queries, files))
	case "test":
		os.Exit(RulesUnitTest(promqltest.LazyLoaderOpts{}, queries, groups, false, false, false, files...))
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: promtool check rules FILE...\n       promtool test rules [--run=GROUP]... FILE...")
	os.Exit(2)
}

// check reads files with rules. No two rules of a file may have the same name and labels.
func check(queries parser.Parser, files []string) int {
	code := successExitCode
	for _, file := range files {
		fmt.Println("Checking", file)
		groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, queries, promslog.NewNopLogger())
		if errs == nil {
			errs = duplicates(groups)
		}
		if errs != nil {
			code = failureExitCode
			fmt.Fprintln(os.Stderr, "  FAILED:")
			for _, err := range errs {
				fmt.Fprintln(os.Stderr, err)
			}
			continue
		}
		count := 0
		for _, group := range groups.Groups {
			count += len(group.Rules)
		}
		fmt.Printf("  SUCCESS: %d rules found\n", count)
	}
	return code
}

func duplicates(groups *rulefmt.RuleGroups) []error {
	var errs []error
	seen := map[string]bool{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			name := rule.Alert
			if name == "" {
				name = rule.Record
			}
			rule := labels.NewBuilder(rules.FromMaps(group.Labels, rule.Labels)).Set(model.MetricNameLabel, name).Labels().String()
			if seen[rule] {
				errs = append(errs, fmt.Errorf("%s occurs twice", rule))
			}
			seen[rule] = true
		}
	}
	return errs
}

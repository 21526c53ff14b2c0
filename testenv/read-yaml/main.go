// Command read-yaml reads texts as kubectl does: kubectl's own reader cuts a text into documents, and sigs.k8s.io/yaml
// converts each to JSON. Tests compare Pillion's reader with it.
//
// Each line of the standard input is a text, as a JSON string of base64. For each it writes a line with a list:
//
//	[{"value": {"a": 1}}, {"error": "yaml: line 1: ..."}, {"value": {"a": 2}, "strict": "... key \"a\" already set in map"}]
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	documents "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
	events "sigs.k8s.io/yaml/goyaml.v2"
)

type document struct {
	Value json.RawMessage `json:"value,omitempty"`
	// Why there is no value.
	Error string `json:"error,omitempty"`
	// What is wrong with the value if keys may not be repeated.
	Strict string `json:"strict,omitempty"`
}

func main() {
	input, output := json.NewDecoder(bufio.NewReader(os.Stdin)), bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(output)
	answers.SetEscapeHTML(false)
	for {
		var text []byte
		if err := input.Decode(&text); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(read(text)); err != nil {
			log.Fatal(err)
		}
	}
	if err := output.Flush(); err != nil {
		log.Fatal(err)
	}
}

func read(text []byte) []document {
	if values, isJSON := stream(text); isJSON {
		return values
	}
	found := []document{}
	reader := documents.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			return append(found, document{Error: err.Error()})
		}
		found = append(found, one(part))
	}
}

// stream returns the values of a text that is a stream of JSON values, which kubectl tries first.
func stream(text []byte) ([]document, bool) {
	if !documents.IsJSONBuffer(text) {
		return nil, false
	}
	found := []document{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return found, true
		} else if err != nil {
			return nil, false
		}
		found = append(found, document{Value: value})
	}
}

func one(part []byte) (read document) {
	defer func() {
		if problem := recover(); problem != nil {
			read = document{Error: fmt.Sprint("panic: ", problem)}
		}
	}()
	value, err := yaml.YAMLToJSON(part)
	if err == nil {
		err = rest(part)
	}
	if err != nil {
		return document{Error: err.Error()}
	}
	read.Value = value
	if _, err := yaml.YAMLToJSONStrict(part); err != nil {
		read.Strict = err.Error()
	}
	return read
}

// rest returns what is wrong behind the first document of a part, which kubectl does not look at.
func rest(part []byte) error {
	decoder := events.NewDecoder(bytes.NewReader(part))
	for {
		var value any
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// prometheus asks the server of an address.
type prometheus struct {
	url string
}

type sample struct {
	labels map[string]string
	at     time.Time
	value  float64
}

// answer is what /api/v1/query says: a vector of series, each with [seconds, "value"].
type answer struct {
	Error string
	Data  struct {
		Result []struct {
			Metric map[string]string
			Value  [2]json.RawMessage
		}
	}
}

// ask is the vector that a query has now.
func (p prometheus) ask(ctx context.Context, query string) ([]sample, error) {
	address := p.url + "/api/v1/query?" + url.Values{"query": {query}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var said answer
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("query %s: %s", query, said.Error)
	}
	samples := make([]sample, len(said.Data.Result))
	for i, series := range said.Data.Result {
		if samples[i], err = parse(series.Metric, series.Value); err != nil {
			return nil, fmt.Errorf("query %s: %w", query, err)
		}
	}
	return samples, nil
}

func parse(labels map[string]string, value [2]json.RawMessage) (sample, error) {
	var seconds float64
	var text string
	if err := json.Unmarshal(value[0], &seconds); err != nil {
		return sample{}, err
	}
	if err := json.Unmarshal(value[1], &text); err != nil {
		return sample{}, err
	}
	number, err := strconv.ParseFloat(text, 64)
	return sample{labels, time.UnixMilli(int64(seconds * 1000)), number}, err
}

# SPDX-License-Identifier: Apache-2.0
# As much of JSON as the golden cases need: objects are dictionaries, numbers Float64.

mutable struct JsonReader
    text::String
    at::Int
end

function skip_space(r)
    while r.at <= ncodeunits(r.text) && isspace(r.text[r.at])
        r.at += 1
    end
    r.text[r.at]
end

function take(r, wanted)
    found = skip_space(r) == wanted
    r.at += found
    found
end

function read_text(r)
    take(r, '"') || error("no text at $(r.at)")
    stop = findnext(isequal('"'), r.text, r.at)
    text = r.text[r.at:stop-1]
    '\\' in text && error("escapes are not read")
    r.at = stop + 1
    text
end

function read_items(read, r, stop)
    items = []
    r.at += 1
    while !take(r, stop)
        isempty(items) || take(r, ',') || error("no comma at $(r.at)")
        push!(items, read(r))
    end
    items
end

function read_entry(r)
    key = read_text(r)
    take(r, ':') || error("no colon at $(r.at)")
    key => read_value(r)
end

function read_value(r)
    first = skip_space(r)
    first == '"' && return read_text(r)
    first == '[' && return read_items(read_value, r, ']')
    first == '{' && return Dict{String,Any}(read_items(read_entry, r, '}'))
    stop = findnext(in(",]} \n"), r.text, r.at)
    word = r.text[r.at:stop-1]
    r.at = stop
    word == "true" ? true : word == "false" ? false : parse(Float64, word)
end

parse_json(text) = read_value(JsonReader(text, 1))

#include "ordered_log.hpp"

#include <algorithm>

namespace replay {

OrderedLog::OrderedLog(std::vector<std::unique_ptr<LogFile>> files, const LogFormat &format)
    : format_(format), time_(format) {
    for (auto &file : files) {
        Source source{.file = std::move(file),
                      .text = {},
                      .fields = std::vector<Field>(format.fields()),
                      .time = {}};
        if (read_line(source)) {
            sources_.push_back(std::move(source));
        } else {
            finished_.push_back(std::move(source.file));
        }
    }
}

/// Reads up to the next line that has a time. Returns false at the end of the file.
bool OrderedLog::read_line(Source &source) {
    while (const auto line = source.file->next()) {
        if (line->empty()) {
            continue;
        }
        ++lines_;
        std::optional<LogTime::Time> time;
        const bool is_of_format = format_.split(*line, source.fields);
        if (is_of_format) {
            time = time_.of(Request(format_, *line, source.fields), buffer_);
        }
        if (time) {
            source.text = *line;
            source.time = *time;
            return true;
        }
        if (!is_of_format || !time_.may_be_missing()) {
            first_skipped_ = skipped_ == 0 ? std::string(*line) : first_skipped_;
            ++skipped_;
        }
    }
    return false;
}

/// A line that comes too late stands behind what was given out already.
void OrderedLog::add(const Source &source) {
    LogTime::Time time = source.time;
    if (time.decided_us < last_given_us_) {
        ++late_;
        time.decided_us = last_given_us_;
        time.ended_us = std::max(time.ended_us, time.decided_us);
    }
    const int64_t of_second = time.decided_us / second;
    advance(of_second);
    Bucket &bucket = buckets_[of_second];
    bucket.entries.push_back({.time = time,
                              .text_begin = bucket.text.size(),
                              .text_size = source.text.size(),
                              .first_field = bucket.fields.size()});
    bucket.text += source.text;
    bucket.fields.insert(bucket.fields.end(), source.fields.begin(), source.fields.end());
}

/// Takes note of how far the log is. A line that is far ahead of all others may be of a clock that
/// was wrong: it counts when the next one is there, too.
void OrderedLog::advance(int64_t of_second) {
    if (latest_s_ && ahead_s_ && of_second + longest_delay_s >= *ahead_s_) {
        latest_s_ = std::max(*latest_s_, std::min(*ahead_s_, of_second));
    }
    ahead_s_.reset();
    if (latest_s_ && of_second > *latest_s_ + longest_delay_s) {
        ahead_s_ = of_second;
    } else {
        latest_s_ = std::max(latest_s_.value_or(of_second), of_second);
    }
}

/// Reads on until the lines of the first second are all there. Returns false at the end.
bool OrderedLog::fill() {
    while (!sources_.empty() && (!latest_s_ || buckets_.empty() ||
                                 buckets_.begin()->first + longest_delay_s >= *latest_s_)) {
        const auto next = std::ranges::min_element(
            sources_, {}, [](const Source &s) { return s.time.decided_us; });
        add(*next);
        if (!read_line(*next)) {
            finished_.push_back(std::move(next->file));
            sources_.erase(next);
        }
    }
    if (buckets_.empty()) {
        return false;
    }
    current_ = std::move(buckets_.begin()->second);
    buckets_.erase(buckets_.begin());
    std::ranges::stable_sort(current_.entries, {},
                             [](const Bucket::Entry &entry) { return entry.time.decided_us; });
    given_out_ = 0;
    return true;
}

std::optional<OrderedLog::Line> OrderedLog::next() {
    if (given_out_ == current_.entries.size() && !fill()) {
        return std::nullopt;
    }
    const Bucket::Entry &entry = current_.entries[given_out_++];
    last_given_us_ = std::max(last_given_us_, entry.time.decided_us);
    return Line{.text = std::string_view(current_.text).substr(entry.text_begin, entry.text_size),
                .fields = std::span(current_.fields).subspan(entry.first_field, format_.fields()),
                .time = entry.time};
}

std::string OrderedLog::error() const {
    for (const auto &file : finished_) {
        if (!file->error().empty()) {
            return file->error();
        }
    }
    return {};
}

std::optional<double> OrderedLog::progress() const {
    uint64_t size = 0;
    uint64_t read = 0;
    bool is_known = true;
    const auto count = [&](const LogFile &file) {
        is_known = is_known && file.size() > 0;
        size += file.size();
        read += std::min(file.read_so_far(), file.size());
    };
    std::ranges::for_each(finished_, [&](const auto &file) { count(*file); });
    std::ranges::for_each(sources_, [&](const auto &source) { count(*source.file); });
    return is_known && size > 0
               ? std::optional(static_cast<double>(read) / static_cast<double>(size))
               : std::nullopt;
}

} // namespace replay

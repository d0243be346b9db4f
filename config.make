# nginx has no variable for flags of C++ alone. The flags below are those of this module's objects, and
# of no others.

# With -O3, g++ 12 warns of overlapping copies in its own std::string, which never happen:
# https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105329. clang does not know this warning.
redis_rate_limit_warnings=
if [ "$NGX_CC_NAME" = gcc ]; then
    redis_rate_limit_warnings=-Wno-restrict
fi

# Debian 13 builds C with this flag, so that it is among those of an nginx that was built there. g++ does not
# know it, and with nginx's -Werror that is an error.
redis_rate_limit_flags_of_c=-Werror=implicit-function-declaration

redis_rate_limit_defines=
if [ -n "$redis_rate_limit_cctz" ]; then
    redis_rate_limit_defines=-DREDIS_RATE_LIMIT_HAS_CCTZ
fi

# nginx names an object after its source file and the folder that the file is in. If two add-ons have
# sources with the same folder and file name, one of them gets the object of the other.
redis_rate_limit_names_of_objects() {
    printf '%s\n' "$@" | sed -e 's|.*/\([^/]*/[^/]*\)\.[^./]*$|\1|'
}

# The lists of sources have spaces between the names.
# shellcheck disable=SC2086
redis_rate_limit_names=$(redis_rate_limit_names_of_objects $redis_rate_limit_sources | sort -u)
# shellcheck disable=SC2086
redis_rate_limit_doubled=$(redis_rate_limit_names_of_objects $NGX_ADDON_SRCS $DYNAMIC_MODULES_SRCS |
    sort | uniq -d | grep -xF -e "$redis_rate_limit_names" || true)

if [ -n "$redis_rate_limit_doubled" ]; then
    for redis_rate_limit_name in $redis_rate_limit_doubled; do
        cat << END

$0: error: redis_rate_limit and another add-on both have an object addon/$redis_rate_limit_name.
Configure a build of its own for one of them, as a dynamic module.

END
    done
    exit 1
fi

for redis_rate_limit_name in $redis_rate_limit_names; do
    cat << END >> "$NGX_MAKEFILE"

$NGX_OBJS/addon/$redis_rate_limit_name.$ngx_objext: CFLAGS := \$(filter-out $redis_rate_limit_flags_of_c,\$(CFLAGS)) -std=c++20 -fno-exceptions -fno-rtti -fvisibility=hidden -fno-lto $redis_rate_limit_warnings -I$ngx_addon_dir/src -DRATE_LIMIT_DIR='"$ngx_addon_dir"' $redis_rate_limit_defines \$(REDIS_RATE_LIMIT_CFLAGS)
END
done

# The object $1 depends on the files $2, which are embedded in it.
redis_rate_limit_embeds() {
    cat << END >> "$NGX_MAKEFILE"

$NGX_OBJS/addon/$1.$ngx_objext: $2
END
}
for redis_rate_limit_script in "$ngx_addon_dir"/lua/*.lua; do
    redis_rate_limit_name=$(basename "$redis_rate_limit_script" .lua)
    if [ -f "$ngx_addon_dir/src/rate_limit/algorithms/$redis_rate_limit_name.cpp" ]; then
        redis_rate_limit_embeds "algorithms/$redis_rate_limit_name" "$redis_rate_limit_script"
    else
        redis_rate_limit_embeds script/lua_source "$redis_rate_limit_script"
    fi
done
redis_rate_limit_embeds dashboard/dashboard_page "$(echo "$ngx_addon_dir"/dashboard/*)"
redis_rate_limit_embeds metrics/metrics_json "$ngx_addon_dir/VERSION"

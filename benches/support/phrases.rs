//! The words and the templates that [`super::text`] composes files of.
//!
//! In a template, `$` and a letter stand for something to fill in:
//!
//! | placeholder | is filled with |
//! |---|---|
//! | `$v` `$m` `$t` `$f` `$k` | a variable, member, type, function or constant the directory has |
//! | `$F` `$K` | a new function or constant |
//! | `$n` `$w` `$s` | a stem, an English word, an English phrase |
//! | `$d` `$x` `$e` | a decimal, a hexadecimal, an error number |

use std::sync::LazyLock;

static STEMS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "dev ctx page queue lock init reg buf state node irq clk port link data info entry cache map \
     list count size flags mask event work timer index table ring frame packet addr offset block \
     inode bus host chan slot group level mode probe attach config setup update flush alloc free \
     enable stop start reset read write send recv poll wait wake notify commit apply parse check \
     find insert remove lookup bind resume suspend power volt rate phase gain limit head tail \
     owner parent child root scan sync bridge panel stream codec sensor policy filter route token \
     domain region segment vector shadow batch credit quota epoch fence sample trace"
        .split_whitespace()
        .collect()
});

static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "the is to of a and in for this we be that not it if on with are from by can when or as \
     device must which have will before has an should so but only used may after no all at \
     already until was need does value been memory buffer any than call then there register \
     because first other same called interrupt while lock held caller write case make sure \
     function driver read user space data into one new page get now time they number without \
     return still once since size bit both these end each where otherwise here hardware \
     controller request transfer pending firmware enabled mapping reference length between \
     structure pointer address support possible currently instead however allocated boundary \
     descriptor least always never fails state wait during needs another could would leave longer \
     directly initialized operation safe race"
        .split_whitespace()
        .collect()
});

/// The parts that every name is made of, those of files and directories too.
pub fn stems() -> &'static [&'static str] {
    &STEMS
}

/// What comments and documentation are made of, the most frequent first.
pub fn words() -> &'static [&'static str] {
    &WORDS
}

pub const ERRORS: &[&str] = &["EINVAL", "ENODEV", "EBUSY", "EIO", "ETIMEDOUT", "ENOENT"];

pub const SOURCE_OPENING: &str = "// SPDX-License-Identifier: GPL-2.0\n/*\n * $s\n *\n * Copyright (C) 20$d $w $w\n */\n#include <linux/$n.h>\n#include <linux/$n.h>\n\n";

pub const HEADER_OPENING: &str = "/* SPDX-License-Identifier: GPL-2.0 */\n#ifndef __$K_H\n#define __$K_H\n\n";

pub const STATEMENTS: &[&str] = &[
    "\t$v = $f($v);\n",
    "\t$v->$m = $d;\n",
    "\t$v->$m = $v->$m;\n",
    "\t$f($v, $v->$m);\n",
    "\tif (!$v)\n\t\treturn -$e;\n\n",
    "\tret = $f($v, $k);\n\tif (ret)\n\t\treturn ret;\n\n",
    "\tret = $f($v, $v, $d);\n\tif (ret < 0) {\n\t\tdev_err($v->dev, \"$w $w $w: %d\\n\", ret);\n\t\tgoto err_$n;\n\t}\n",
    "\t/* $s */\n",
    "\tif ($v->$m & $k)\n\t\t$f($v, $x);\n",
    "\tif ($v->$m == $k && $v->$m > $d) {\n\t\t$v->$m |= $k;\n\t\t$f($v);\n\t}\n\n",
    "\tfor (i = 0; i < $v->$m; i++)\n\t\t$f(&$v->$m[i], $v);\n\n",
    "\tmutex_lock(&$v->$m);\n\t$f($v, $v->$m);\n\tmutex_unlock(&$v->$m);\n",
    "\t$v = kzalloc(sizeof(*$v), GFP_KERNEL);\n\tif (!$v)\n\t\treturn -ENOMEM;\n\n",
    "\twritel($x, $v->base + $k);\n",
    "\tval = readl($v->base + $k);\n\tval &= ~$k;\n",
    "\tswitch ($v->$m) {\n\tcase $k:\n\t\t$f($v);\n\t\tbreak;\n\tcase $k:\n\t\t$v->$m = $x;\n\t\tbreak;\n\tdefault:\n\t\treturn -$e;\n\t}\n\n",
    "\t/*\n\t * $s\n\t * $s\n\t */\n",
    "\tlist_for_each_entry($v, &$v->$m, $m) {\n\t\tif ($f($v))\n\t\t\tcontinue;\n\t\t$v->$m++;\n\t}\n",
];

pub const FUNCTIONS: &[&str] = &[
    "static int $F(struct $t *$v, u32 $v)\n{\n\tstruct $t *$v = $f($v);\n\tint ret;\n\n",
    "static void $F(struct $t *$v)\n{\n\tstruct $t *$v = $v->$m;\n\tunsigned int i;\n\n",
    "/**\n * $F() - $s\n * @$v: $s\n * @$v: $s\n *\n * $s\n * $s\n */\nint $F(struct $t *$v, struct $t *$v)\n{\n\tint ret, i;\n\n",
    "static irqreturn_t $F(int irq, void *$v)\n{\n\tstruct $t *$v = $v;\n\tu32 val;\n\n",
];

pub const DECLARATIONS: &[&str] = &[
    "#define $K\t\t$x\n#define $K\t\t$x\n#define $K\t\tBIT($d)\n",
    "#define $K\t\tGENMASK($d, $d)\n#define $K_SHIFT\t$d\n",
    "int $f(struct $t *$v, struct $t *$v);\nvoid $f(struct $t *$v);\n",
    "struct $t {\n\tstruct $t *$m;\n\tu32 $m;\n\tu32 $m;\n\tunsigned long $m; /* $s */\n\tstruct list_head $m;\n};\n\n",
    "static inline bool $f(const struct $t *$v)\n{\n\treturn $v->$m & $k;\n}\n\n",
    "/* $s */\n",
    "enum $t {\n\t$K,\n\t$K,\n\t$K = $d,\n};\n\n",
];

pub const PARAGRAPHS: &[&str] = &[
    "$s. $s $s, $s\n$s. $s $w\n$s $s.\n\n",
    "- ``$f``: $s\n- ``$k``: $s $w.\n\n",
    "$w $w $w\n----------------\n\n$s, $s\n$s.\n\n",
    "::\n\n\t$f($v, $d);\n\n",
];
